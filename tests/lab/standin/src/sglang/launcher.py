# SPDX-License-Identifier: GPL-3.0-or-later
"""The main process: starts the ranks, waits for them, serves, drains, and dies as the release does."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request

from . import lines
from .engine import Engine
from .geometry import ConfigError
from .http import Handler, Server
from .output import Log, ServerLog
from .process import fork, messages, send
from .rank import Rank
from .start import Start


class Launcher:
    """One server. `run` returns the exit status, or the process kills itself as the engine does."""

    def __init__(self, args):
        self.args = args
        self.start = None
        self.release = None
        self.log = Log(level=args.log_level)
        self.server_log = ServerLog(args.log_level_http or args.log_level)
        self.children = {}  # pid: name
        self.commands, self.reports, self.rank_pids = [], [], []
        self.server = self.engine = None
        self.drain_begun = False

    # ---- start -----------------------------------------------------------------------------------------------

    def run(self):
        """Start, serve, stop."""
        start = self.start = Start(self.args)
        self.release = start.release
        self.log.milliseconds, self.log.ansi = start.milliseconds, "ansi" in start.faults
        if "crash" in start.faults:
            self.log.error("The stand-in was asked to crash.")
            return int(start.faults.number("crash"))
        if start.requests_capped:
            self.log.warning(lines.spec_requests())
        self.log.info(lines.server_args(start.values))
        if "print-secret" in start.faults:
            self.log.info(f"environment HF_TOKEN={start.faults.value('print-secret')}")
        self.log.info(lines.chat_template())
        if lines.template_features(self.args):
            self.log.info(lines.template_features(self.args))
        signal.signal(signal.SIGQUIT, self.sigquit_at_launch)
        begun = time.time()
        self.fork_children()
        problem = self.wait_for_ranks()
        if problem:
            return self.give_up(problem)
        if (self.args.node_rank or 0) > 0:
            return self.serve_dummy()
        timings = lines.timings(start.load_seconds, start.step, time.time() - begun)
        if timings:
            self.log.info(timings)
        return self.serve()

    def fork_children(self):
        """The scheduler ranks and the detokenizer."""
        for place in self.start.places:
            command_read, command_write = os.pipe()
            report_read, report_write = os.pipe()
            rank = Rank(self.start, place, command_read, report_write)
            linger = self.start.faults.hits("linger", place.index, self.start.last_rank)
            pid = fork(rank.run, place.title, (command_read, report_write), orphan=linger)
            os.close(command_read)
            os.close(report_write)
            self.commands.append(command_write)
            self.reports.append(report_read)
            self.rank_pids.append(pid)
            self.children[pid] = f"scheduler_{place.index}"
        self.detokenizer_pipe = os.pipe()

        def detokenize():
            for _message in messages(self.detokenizer_pipe[0]):
                pass

        pid = fork(detokenize, "sglang::detokenizer", (self.detokenizer_pipe[0],))
        self.children[pid] = "detokenizer"

    def wait_for_ranks(self):
        """Wait for every rank's report in turn; returns an error text where the start failed."""
        for index, report in enumerate(self.reports):
            while True:
                # Until 0.5.9 the launcher just reads on: it notices a dead rank only at that rank's own turn,
                # and not the last one, whose pipe it still holds open itself.
                watched = self.release.at_least("0.5.10")
                readable, _w, _x = select.select([report], [], [], self.start.poll_seconds if watched else None)
                if readable and os.read(report, 65536):
                    break
                if readable and watched:
                    return lines.rank_died(index, self.exit_code(index))
                if readable:
                    if index == len(self.reports) - 1:
                        while True:
                            signal.pause()
                    self.log.error(f"Rank {index} scheduler is dead. Please check if there are relevant logs.")
                    self.log.error(f"Exit code: {self.exit_code(index)}")
                    return "EOFError"
                for other in range(len(self.reports)):
                    code = self.exit_code(other, wait=False)
                    if code is not None:
                        return lines.rank_died(other, code)
        return None

    def exit_code(self, index, wait=True):
        """Exit status of a rank as Python's multiprocessing gives it: negative for a signal, None while alive."""
        pid, status = os.waitpid(self.rank_pids[index], 0 if wait else os.WNOHANG)
        if pid == 0:
            return None
        self.children.pop(pid, None)
        return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def give_up(self, problem):
        """Leave with a traceback, after the other children were killed."""
        sys.stderr.write(
            "Traceback (most recent call last):\n"
            '  File "sglang/launch_server.py", line 79, in <module>\n    run_server(server_args)\n'
            f"{problem}\n"
        )
        sys.stderr.flush()
        self.kill_tree(include_parent=False)
        return 1

    # ---- serving ---------------------------------------------------------------------------------------------

    def rank_log(self, kind, *figures):
        """A line that rank 0 prints about its batches."""
        graph = "cpu graph" if self.args.device == "cpu" else "cuda graph"
        if kind == "prefill":
            text = lines.prefill_batch(*figures, graph, 412.7)
        else:
            text = lines.decode_batch(*figures, self.start.accept_length, graph, 81.4)
        send(self.commands[0], {"log": text})

    def bind(self):
        """Open the port as the web server does; None, with its error printed, where that fails."""
        start = self.start
        for line in (f"Started server process [{os.getpid()}]", "Waiting for application startup."):
            self.server_log.info(line)
        self.server_log.info("Application startup complete.")
        try:
            if "port-in-use" in start.faults:
                raise OSError(98, "Address already in use")
            server = Server((self.args.host, self.args.port), Handler, bind_and_activate=True)
        except OSError as problem:
            self.server_log.error(
                f"[Errno {problem.errno}] error while attempting to bind on address "
                f"('{self.args.host}', {self.args.port}): {os.strerror(problem.errno or 0).lower()}"
            )
            self.server_log.info("Waiting for application shutdown.")
            # The engine joins its warm-up here. Where another server answers on the port, the warm-up succeeds
            # and the dying process says that it is ready; where none does, it tries for two minutes.
            self.warm_up()
            self.server_log.info("Application shutdown complete.")
            return None
        server.start, server.engine, server.log, server.server_log = start, self.engine, self.log, self.server_log
        address = f"http://{self.args.host}:{self.args.port}"
        self.server_log.info(f"Uvicorn running on {address} (Press CTRL+C to quit)")
        return server

    def serve(self):
        """Serve until a signal ends it."""
        self.engine = Engine(self.start, self.rank_log)
        self.server = self.bind()
        if self.server is None:
            self.kill_tree(include_parent=False)
            return 3
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        threading.Thread(target=self.server.serve_forever, args=(3600,), daemon=True).start()
        threading.Thread(target=self.warm_up, args=(wake_write,), daemon=True).start()
        self.up_at = time.monotonic()
        while True:
            wait = self.next_drain_check() if self.drain_begun else None
            select.select([wake_read], [], [], wait)
            with contextlib.suppress(BlockingIOError):
                os.read(wake_read, 4096)
            self.reap()
            if self.drain_begun and self.drained():
                return self.leave()

    def warm_up(self, wake=None):
        """The engine's own first request; only then is it ready. `wake`: wakes the main thread, None without one."""
        start, host = self.start, self.args.host
        address = f"http://{'127.0.0.1' if host in ('0.0.0.0', '') else host}:{self.args.port}"
        headers = {"Content-Type": "application/json"}
        if self.args.api_key:
            headers["Authorization"] = f"Bearer {self.args.api_key}"

        def ask(path, data=None):
            request = urllib.request.Request(address + path, data, headers)
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(request, timeout=600) as answer:
                answer.read()

        try:
            if "never-ready" in start.faults:
                return
            if not self.args.skip_server_warmup:
                info = "/model_info" if self.release.at_least("0.5.6") else "/get_model_info"
                for left in reversed(range(start.warmup_tries)):
                    try:
                        ask(info)
                        break
                    except OSError:
                        if not left:
                            raise
                        time.sleep(1)
                if "warmup-fails" in start.faults:
                    raise AssertionError("CUDA error: an illegal memory access was encountered")
                body = b'{"text": "The capital city of France is", "sampling_params": {"max_new_tokens": 8}}'
                ask("/generate", body)
            self.handle_signals(wake)
            self.engine.status = "Up"
            if self.release.at_least("0.5.18"):
                ask("/freeze_gc", b"")
        except Exception:
            self.log.error(f"Initialization failed. warmup error: {traceback.format_exc()}")
            self.kill_tree(include_parent=True)
        self.log.info(lines.READY)
        if wake is not None:
            self.after_ready()

    def handle_signals(self, wake):
        """From the first request on SIGTERM drains; the main thread sets the handlers when it wakes."""
        self.signals_wanted = wake is not None
        if wake is not None:
            os.write(wake, b"\0")

    signals_wanted = False

    def after_ready(self):
        """Faults that strike a while after the server became ready."""
        faults = self.start.faults
        if "flood-after-ready" in faults:
            for number in range(int(faults.number("flood-after-ready"))):
                self.log.info(f"Unsupported element_size = {number} for JIT HiCache kernel")
        if "die-after-ready" in faults:
            time.sleep(faults.number("die-after-ready"))
            rank = faults.asked["die-after-ready"][1] or 0
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.rank_pids[rank], signal.SIGKILL)
        if "watchdog" in faults:
            time.sleep(faults.number("watchdog"))
            rank = faults.asked["watchdog"][1] or 0
            send(self.commands[rank], {"watchdog": float(self.args.watchdog_timeout or 300)})

    def reap(self):
        """Set handlers when it is time, and look for dead children."""
        if self.signals_wanted:
            self.signals_wanted = False
            signal.signal(signal.SIGTERM, self.sigterm)
            signal.signal(signal.SIGQUIT, self.sigquit_while_serving)
        for pid in list(self.children):
            with contextlib.suppress(ChildProcessError):
                found, status = os.waitpid(pid, os.WNOHANG)
                if not found:
                    continue
                name = self.children.pop(pid)
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                if code == 0:
                    continue
                self.engine.dead.set()  # until 0.5.9 nobody notices, and no request is answered any more
                if self.release.at_least("0.5.10"):
                    self.log.error(lines.subprocess_crashed(name, pid, code))
                    self.sigquit_while_serving()

    # ---- stopping --------------------------------------------------------------------------------------------

    def sigterm(self, *_signal):
        """Begin to drain."""
        self.log.warning(lines.sigterm_received())
        if "ignore-sigterm" in self.start.faults:
            return
        self.server.draining = True
        self.drain_begun = True

    def next_drain_check(self):
        """Seconds until the drain looks again: it wakes every 5 s, counted from the start of serving."""
        period = self.start.drain_seconds
        return period - (time.monotonic() - self.up_at) % period

    last_check = None

    def drained(self):
        """At each 5 s mark: say what still runs; True when nothing does."""
        mark = int((time.monotonic() - self.up_at) / self.start.drain_seconds)
        if self.last_check is None:
            self.last_check = mark  # the mark at which SIGTERM came; the next one is the first look
            return False
        if mark == self.last_check:
            return False
        self.last_check = mark
        rids = list(self.engine.running)
        self.log.info(lines.gracefully_exiting(rids))
        deadline = time.monotonic() + 2
        while not rids and self.server.answering and time.monotonic() < deadline:
            time.sleep(0.01)
        return not rids

    def leave(self):
        """The end of the drain, by release."""
        if self.release.at_least("0.5.14"):
            for command in self.commands:
                send(command, {"stop": True})
            deadline = time.monotonic() + 2
            while self.children and time.monotonic() < deadline:
                for pid in list(self.children):
                    with contextlib.suppress(ChildProcessError):
                        if os.waitpid(pid, os.WNOHANG)[0] or self.children[pid] == "detokenizer":
                            if self.children[pid] == "detokenizer":
                                os.kill(pid, signal.SIGKILL)
                                os.waitpid(pid, 0)
                            self.children.pop(pid, None)
                time.sleep(0.01)
        if not self.release.at_least("0.5.19"):
            self.kill_tree(include_parent=True)
        if self.release.at_least("0.5.20"):
            for line in ("Shutting down", "Waiting for application shutdown.", "Application shutdown complete."):
                self.server_log.info(line)
            self.server_log.info(f"Finished server process [{os.getpid()}]")
        self.kill_tree(include_parent=False)
        return 0

    def sigquit_at_launch(self, *_signal):
        """A rank failed while starting."""
        self.log.error(lines.SIGQUIT_AT_LAUNCH)
        self.kill_tree(include_parent=True)

    def sigquit_while_serving(self, *_signal):
        """A rank failed while serving."""
        self.log.error(lines.sigquit_received())
        self.kill_tree(include_parent=True)

    def kill_tree(self, include_parent):
        """SIGKILL for all children, and for this process too where asked: a clean stop looks like a crash then."""
        pid = os.getpid()
        if self.release.at_least("0.5.13"):
            self.log.info(f"kill_process_tree called: parent_pid={pid}, include_parent={include_parent}, pid={pid}")
        lingering = "linger" in self.start.faults
        for child, name in list(self.children.items()):
            if lingering and name.startswith("scheduler"):
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        if include_parent:
            os.kill(pid, signal.SIGKILL)
            time.sleep(60)
        for child in self.children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)

    def serve_dummy(self):
        """A node that is not the first: answers health checks with 200 whatever happens, and never says ready."""
        self.engine = Engine(self.start, self.rank_log)
        self.engine.status = "Up"
        self.server = Server((self.args.host, self.args.port), Handler)
        server = self.server
        server.start, server.engine, server.log, server.server_log = self.start, self.engine, self.log, self.server_log
        threading.Thread(target=server.serve_forever, args=(3600,), daemon=True).start()
        while True:
            signal.pause()


def launch(args):
    """Run the server for parsed arguments; returns the exit status."""
    launcher = Launcher(args)
    try:
        return launcher.run()
    except ConfigError as problem:
        print(f"Traceback (most recent call last):\nOSError: {problem}", file=sys.stderr)
        return 1
    except (urllib.error.URLError, ValueError):
        traceback.print_exc()
        return 1
