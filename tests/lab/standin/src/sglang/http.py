# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP side: the endpoints that the collection uses, with the engine's status codes and bodies."""

from __future__ import annotations

import hmac
import json
import socket
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from . import __version__, forwarded, lines, metrics
from .engine import tokenize

KEY_FREE = ("/health", "/health_generate", "/metrics")
POSTS = ("/v1/chat/completions", "/v1/completions", "/generate", "/flush_cache", "/freeze_gc")


class Server(ThreadingHTTPServer):
    """A thread per connection; `engine`, `start`, `log` and `server_log` are set by the launcher."""

    daemon_threads = True
    request_queue_size = 128
    draining = False
    answering = 0

    def __init__(self, *args, **kwargs):
        self.lock = threading.Lock()
        super().__init__(*args, **kwargs)

    def count(self, change):
        """Keep the number of requests that are being answered."""
        with self.lock:
            self.answering += change

    def server_bind(self):
        """Bind without a reverse look-up of the host's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]

    def handle_error(self, request, client_address):
        """A client that went away is no error of ours."""


class BadRequest(Exception):
    """Answered with status 400 and the engine's error body."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "uvicorn", ""
    wbufsize = -1

    def version_string(self):
        """The engine names its web server only."""
        return "uvicorn"

    def log_request(self, code="-", size="-"):
        """One access line on stdout."""
        phrase = self.responses.get(code, ("",))[0]
        named = self.headers.get_all("x-forwarded-for", []) if getattr(self, "headers", None) else []
        host, port = self.server.start.trusted.client(self.client_address[:2], named)
        request = forwarded.request_of(self.requestline)
        self.server.server_log.access(f"{host}:{port}", request, f"{int(code)} {phrase}")

    def log_message(self, format, *args):
        """Nothing else is printed."""

    # ---- answers ---------------------------------------------------------------------------------------------

    def answer(self, status, body=b"", kind="application/json"):
        """A whole answer; a dict or list is sent as JSON, None as an empty body."""
        if not isinstance(body, bytes):
            body = json.dumps(body, separators=(",", ":")).encode()
        self.send_response(status)
        if body:
            self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def stream_begin(self):
        """The head of a stream of server-sent events."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def stream_event(self, message):
        """One event; None ends the stream."""
        data = "[DONE]" if message is None else json.dumps(message, separators=(",", ":"))
        event = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        if message is None:
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def allowed(self):
        """Check the bearer key; answers 401 itself."""
        start, path = self.server.start, self.path.split("?")[0]
        key = start.args.api_key
        given = self.headers.get("authorization", "").encode()
        free = path in KEY_FREE or (path == "/ready" and start.release.at_least("0.5.20"))
        if not key or free or hmac.compare_digest(given, f"Bearer {key}".encode()):
            return True
        self.answer(401, {"error": "Unauthorized"})
        return False

    # ---- routes ----------------------------------------------------------------------------------------------

    def do_GET(self):
        """Everything that is read."""
        path = self.path.split("?")[0]
        start, engine = self.server.start, self.server.engine
        if path == "/metrics" and start.args.enable_metrics and "no-metrics" not in start.faults:
            text = metrics.render(engine, start.release).encode()
            return self.answer(200, text, "text/plain; version=0.0.4; charset=utf-8")
        if not self.allowed():
            return None
        if path in ("/health", "/health_generate"):
            return self.health()
        if path == "/ready" and start.release.at_least("0.5.20"):
            up = engine.status == "Up" and not self.server.draining
            return self.answer(200 if up else 503)
        if path == "/ping":
            return self.answer(200)
        if path in ("/model_info", "/get_model_info"):
            self.old_name(path, "/get_model_info", "/model_info")
            return self.answer(200, self.model_info())
        if path in ("/server_info", "/get_server_info"):
            self.old_name(path, "/get_server_info", "/server_info")
            return self.answer(200, self.server_info())
        if path == "/v1/models":
            return self.answer(200, self.models())
        if path in POSTS:
            return self.answer(405, {"detail": "Method Not Allowed"})
        return self.answer(404, {"detail": "Not Found"})

    def do_POST(self):
        """Generations and a few orders; the drain waits for their last byte."""
        self.server.count(1)
        try:
            self.post()
        finally:
            self.server.count(-1)

    def post(self):
        """Answer a POST."""
        path = self.path.split("?")[0]
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if not self.allowed():
            return None
        if path == "/flush_cache":
            for tier in self.server.engine.cache.tiers.values():
                tier.clear()
            text = "Cache flushed.\nPlease check backend logs for more details. (When there are running or "
            text += "waiting requests, the operation will not be performed.)\n"
            return self.answer(200, text.encode(), "text/html; charset=utf-8")
        if path == "/freeze_gc":
            return self.answer(200)
        routes = {
            "/v1/chat/completions": self.chat,
            "/v1/completions": self.completion,
            "/generate": self.native,
        }
        if path not in routes:
            known = ("/health", "/v1/models", "/server_info", "/model_info", "/metrics")
            return self.answer(405 if path in known else 404, {"detail": "Not Found"})
        try:
            try:
                asked = json.loads(body)
                if not isinstance(asked, dict):
                    raise ValueError("not an object")
            except ValueError as problem:
                raise BadRequest(f"1 validation error:\n  JSON decode error: {problem}") from problem
            if self.broken():
                return self.answer(
                    500, {"object": "error", "message": "Internal Server Error", "type": "InternalServerError"}
                )
            return routes[path](asked)
        except BadRequest as problem:
            message = {"object": "error", "message": str(problem), "type": "Bad Request", "param": None, "code": 400}
            return self.answer(400, message)

    def broken(self):
        """Is this one of the requests that the fault http-500-after answers?"""
        limit = self.server.start.faults.number("http-500-after")
        return limit is not None and self.server.engine.status == "Up" and self.server.engine.asked >= limit

    def old_name(self, path, old, new):
        """Old names of paths still work, with a word in the log."""
        if path == old and self.server.start.release.at_least("0.5.6"):
            self.server.log.warning(lines.deprecated_endpoint(old, new))

    # ---- what the server says about itself -------------------------------------------------------------------

    def health(self):
        """A one-token generation of its own, unless the server starts or drains."""
        engine, start = self.server.engine, self.server.start
        if self.server.draining:
            self.server.log.info(lines.HEALTH_IN_SHUTDOWN)
            return self.answer(503)
        if engine.status == "Starting":
            return self.answer(503)
        if "unhealthy" in start.faults or engine.dead.is_set():
            self.server.log.error(
                "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. "
                f"tic start time: {time.strftime('%H:%M:%S')}. last_heartbeat time: {time.strftime('%H:%M:%S')}"
            )
            return self.answer(503)
        time.sleep(start.health_seconds)
        return self.answer(200)

    def model_info(self):
        """/model_info"""
        args, config = self.server.start.args, self.server.start.config
        return {
            "model_path": args.model_path,
            "served_model_name": args.served_model_name,
            "tokenizer_path": args.tokenizer_path,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": "default",
            "load_format": args.load_format,
            "reasoning_parser": args.reasoning_parser,
            "tool_call_parser": args.tool_call_parser,
            "has_image_understanding": bool(config.get("vision_config")),
            "has_audio_understanding": False,
            "model_type": config.get("model_type"),
            "architectures": config.get("architectures"),
        }

    def server_info(self):
        """/server_info: every argument flat, the key included, as the engine answers it."""
        start, engine = self.server.start, self.server.engine
        geometry = start.geometry(start.places[0])
        state = dict(start.values)
        state.update(
            last_gen_throughput=0.0,
            memory_usage={
                "weight": round(start.weights, 3),
                "kvcache": round((start.tokens + start.page) * geometry.bytes_per_token / 2**30, 3),
                "token_capacity": start.tokens,
                "graph": 0.0,
            },
            effective_max_running_requests_per_dp=start.max_running,
        )
        if start.accept_length is not None:
            state["avg_spec_accept_length"] = start.accept_length if engine.finished else 1.0
        return {
            **start.values,
            "status": "ready",
            "max_total_num_tokens": start.tokens,
            "max_req_input_len": start.context_length - 6,
            "internal_states": [state] * max(1, start.args.dp_size),
            "version": __version__,
        }

    def models(self):
        """/v1/models"""
        start = self.server.start
        return {
            "object": "list",
            "data": [
                {
                    "id": start.args.served_model_name,
                    "object": "model",
                    "created": int(time.time()),
                    "owned_by": "sglang",
                    "root": start.args.served_model_name,
                    "parent": None,
                    "max_model_len": start.context_length,
                }
            ],
        }

    # ---- generations -----------------------------------------------------------------------------------------

    def admit(self, text, asked, limit):
        """Start a request for a text, or refuse it as too long."""
        start, engine = self.server.start, self.server.engine
        prompt = tokenize(text)
        if len(prompt) >= start.context_length:
            raise BadRequest(
                f"The input ({len(prompt)} tokens) is longer than the model's context length "
                f"({start.context_length} tokens)."
            )
        if start.args.log_requests:
            self.server.log.info(lines.request_received(text, asked.get("sampling_params") or {}))
        room = start.context_length - len(prompt)
        return engine.begin(prompt, min(int(limit or room), room), counted=engine.status == "Up")

    def usage(self, request, reasoning):
        """Token counts of an OpenAI answer; cached tokens only where --enable-cache-report was given."""
        details = {"cached_tokens": request.cached} if self.server.start.args.enable_cache_report else None
        return {
            "prompt_tokens": len(request.prompt),
            "total_tokens": len(request.prompt) + len(request.tokens),
            "completion_tokens": len(request.tokens),
            "prompt_tokens_details": details,
            "reasoning_tokens": reasoning,
        }

    def chat(self, asked):
        """/v1/chat/completions"""
        if not isinstance(asked.get("messages"), list) or not asked["messages"]:
            raise BadRequest(
                "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}"
            )
        text = "".join(f"{m.get('role')}: {flat(m.get('content'))}\n" for m in asked["messages"]) + "assistant: "
        request = self.admit(text, asked, asked.get("max_tokens") or asked.get("max_completion_tokens"))
        thinking = (asked.get("chat_template_kwargs") or {}).get("thinking", True)
        reasoning = bool(self.server.start.args.reasoning_parser) and thinking is not False
        pieces = self.server.engine.generate(request, reasoning, bool(asked.get("ignore_eos")))
        head = {"id": request.rid, "object": "chat.completion", "created": int(time.time())}
        head["model"] = asked.get("model") or self.server.start.args.served_model_name
        if asked.get("stream"):
            return self.chat_stream(asked, request, pieces, {**head, "object": "chat.completion.chunk"})
        parts = {"reasoning": [], "content": []}
        for kind, piece in pieces:
            parts[kind].append(piece)
        message = {
            "role": "assistant",
            "content": "".join(parts["content"]),
            "reasoning_content": "".join(parts["reasoning"]) or None,
            "tool_calls": None,
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": request.finish}
        choice["matched_stop"] = None
        usage = self.usage(request, len(parts["reasoning"]))
        return self.answer(
            200, {**head, "choices": [choice], "usage": usage, "metadata": {"weight_version": "default"}}
        )

    def chat_stream(self, asked, request, pieces, head):
        """The same as events."""

        def chunk(delta, finish=None):
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "matched_stop": None}
            return {**head, "choices": [choice]}

        reasoning = 0
        try:
            self.stream_begin()
            self.stream_event(chunk({"reasoning_content": None, "role": "assistant", "content": ""}))
            for kind, piece in pieces:
                reasoning += kind == "reasoning"
                self.stream_event(chunk({"reasoning_content" if kind == "reasoning" else "content": piece}))
            self.stream_event(chunk({"reasoning_content": None}, request.finish))
            if (asked.get("stream_options") or {}).get("include_usage"):
                self.stream_event({**head, "choices": [], "usage": self.usage(request, reasoning)})
            self.stream_event(None)
        finally:
            pieces.close()

    def completion(self, asked):
        """/v1/completions"""
        if "prompt" not in asked:
            raise BadRequest(
                "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required'}"
            )
        request = self.admit(flat(asked["prompt"]), asked, asked.get("max_tokens") or 16)
        pieces = self.server.engine.generate(request, False, bool(asked.get("ignore_eos")))
        head = {"id": request.rid, "object": "text_completion", "created": int(time.time())}
        head["model"] = asked.get("model") or self.server.start.args.served_model_name

        def choice(text, finish):
            return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, "matched_stop": None}

        if asked.get("stream"):
            try:
                self.stream_begin()
                for _kind, piece in pieces:
                    self.stream_event({**head, "choices": [choice(piece, None)], "usage": None})
                self.stream_event({**head, "choices": [choice("", request.finish)], "usage": None})
                self.stream_event(None)
            finally:
                pieces.close()
            return None
        text = "".join(piece for _kind, piece in pieces)
        usage = self.usage(request, 0)
        return self.answer(200, {**head, "choices": [choice(text, request.finish)], "usage": usage})

    def native(self, asked):
        """/generate, the engine's own interface; one text, and cached tokens in any case."""
        text = asked.get("text")
        many = isinstance(text, list)
        texts = text if many else [text if text is not None else flat(asked.get("input_ids"))]
        parameters = asked.get("sampling_params") or {}
        answers = []
        for one in texts:
            begun = time.time()
            request = self.admit(str(one), asked, parameters.get("max_new_tokens") or 128)
            pieces = self.server.engine.generate(request, False, bool(parameters.get("ignore_eos")))
            out = "".join(piece for _kind, piece in pieces)
            answers.append(
                {
                    "text": out,
                    "output_ids": [50] * len(request.tokens),
                    "meta_info": {
                        "id": request.rid or uuid.uuid4().hex,
                        "finish_reason": {"type": request.finish, "length": len(request.tokens)},
                        "prompt_tokens": len(request.prompt),
                        "weight_version": "default",
                        "completion_tokens": len(request.tokens),
                        "cached_tokens": request.cached,
                        "cached_tokens_details": {"device": request.cached_device, "host": request.cached_host},
                        "e2e_latency": time.time() - begun,
                        **self.speculation(request),
                    },
                }
            )
        return self.answer(200, answers if many else answers[0])

    def speculation(self, request):
        """Figures of the speculation in /generate's meta_info."""
        accept = self.server.start.accept_length
        if accept is None:
            return {}
        return {"spec_verify_ct": max(1, round(len(request.tokens) / accept)), "spec_accept_length": accept}


def flat(content):
    """The text of a message's content, which may be a list of parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") if isinstance(part, dict) else str(part) for part in content)
    return "" if content is None else str(content)
