# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a rollout, from what hosts and routers said: who changes from what to what, and in which batch."""

from __future__ import annotations

from . import fleet_batches
from .fleet_report import left_beyond, table
from .fleet_workers import by_person, by_rollout, workers_of

VERIFIED = "verified"


def verified_ids(service):
    """Return the ids of a service's verified configurations that the host still keeps, the newest first."""
    found, kept = [], service.get("configurations")
    for entry in reversed((service.get("state") or {}).get("verified") or []):
        if entry["id"] not in found and (kept is None or entry["id"] in kept):
            found.append(entry["id"])
    return found


def matches(identity, wanted):
    """Tell whether a configuration is the one that an operator named by its id, its folder or its release."""
    folder = identity.rsplit("-", 1)[0]
    release = folder.split("-")[0]
    return wanted in (identity, folder, release, release.split("+")[0])


def folder_of(identity):
    """Return the release's folder of a configuration's id: the id without the digest of unit and environment."""
    return str(identity or "").rpartition("-")[0]


def undone_rollback(service):
    """Return what a rollback that did not end on this host wrote down, or None."""
    noted = (service.get("state") or {}).get("rollout") or {}
    return noted if noted.get("wanted") and noted.get("to") else None


def reaches(identity, noted):
    """Tell whether a configuration is where a rollback leads that began on another host, with an id of its own."""
    if identity == noted["to"]:
        return True
    return bool(identity) and folder_of(identity) == folder_of(noted["to"]) != folder_of(noted.get("from"))


def earlier_of(service, rollbacks=()):
    """Return the id of the configuration that a service had before, or None.

    A rollback that was broken off is finished, also on the hosts that it had done already; rollbacks: what those of
    this service wrote down on any host. A rollout that was broken off is undone. Else what was verified before the
    active one ever was: what came after it is not back.
    """
    state, known = service.get("state") or {}, verified_ids(service)
    active, begun, noted = state.get("active"), state.get("rollout") or {}, undone_rollback(service)
    if noted and noted["to"] in known:
        return noted["to"]
    if not noted and begun.get("from") in known:
        return begun["from"]
    if not begun and any(reaches(active, other) for other in rollbacks):
        return active
    history = [entry["id"] for entry in state.get("verified") or []]
    before = history[: history.index(active)] if active in history else history
    return next((identity for identity in reversed(before) if identity in known), None)


def target_of(service, wanted, rollbacks=()):
    """Return (id or None, why there is none) of the configuration that a service shall have.

    wanted: "" for the staged one, "verified" for the one before the active one, else an id or a release.
    """
    if not wanted:
        return service.get("staged"), "nothing was staged for it"
    active = (service.get("state") or {}).get("active")
    known = verified_ids(service)
    if wanted == VERIFIED:
        return earlier_of(service, rollbacks), "it has no configuration that was verified before the active one"
    found = [identity for identity in known if matches(identity, wanted)]
    if found:
        return (active if active in found else found[0]), ""
    told = ", ".join(known) or "none"
    return None, f'no verified configuration of it is called "{wanted}"; it has {told}'


def before_of(service, target):
    """Return the configuration to go back to, or None: where a rollout began, or the newest verified one."""
    state = service.get("state") or {}
    known = verified_ids(service)
    begun = state.get("rollout") or {}
    if begun.get("from") and begun["from"] != target:
        return begun["from"]
    if state.get("active") == target and begun.get("from") in (None, target):
        return None
    left = [identity for identity in known if identity != target]
    if state.get("active") in left:
        return state["active"]
    return left[0] if left else None


def proved(service, target):
    """Tell whether the service runs the target, and was verified since it started."""
    state = service.get("state") or {}
    newest = (state.get("verified") or [{}])[-1]
    return (
        state.get("active") == target
        and service.get("active_state") == "active"
        and newest.get("id") == target
        and newest.get("invocation_id") == service.get("invocation_id")
        and not state.get("rollout")
        and not state.get("pending")
    )


class Host:
    """One host of the fleet, as it was before the rollout."""

    def __init__(self, look, workers, wanted, change, rollbacks):
        self.name, self.unit = look["host"], str(look.get("unit") or look["host"])
        staged = look.get("staged") or {}
        self.services = [
            {**service, "name": service["item"], "staged": staged.get(service["item"])} for service in look["services"]
        ]
        self.workers = [worker for worker in workers if worker.get("host") == self.name]
        self.person = next((worker for worker in self.workers if by_person(worker)), None)
        begun = any((service.get("state") or {}).get("rollout") for service in self.services)
        self.unfinished = bool(begun or any(by_rollout(worker) for worker in self.workers))
        self.moves, self.missing = {}, []
        for service in self.services:
            active = (service.get("state") or {}).get("active")
            target, why = (
                (active, "it has no active configuration")
                if change
                else target_of(service, wanted, rollbacks.get(service["name"], ()))
            )
            if target is None:
                self.missing.append((service["name"], why))
            back = None if change else before_of(service, target)
            self.moves[service["name"]] = {"from": active, "to": target, "back": back}
        self.staying = self.left_as_they_are(wanted)
        self.missing = [(name, why) for name, why in self.missing if name not in self.staying]
        # One that does not change beside one that does has itself to go back to.
        if any(move["back"] for move in self.moves.values()):
            for move in self.moves.values():
                if move["to"] and move["to"] == move["from"] and not move["back"]:
                    move["back"] = move["to"]
        self.proved = not change and all(
            proved(service, self.moves[service["name"]]["to"]) for service in self.services
        )

    def left_as_they_are(self, wanted):
        """Keep services as they are that cannot follow the others of a host in a rollback; returns their names.

        A release, or its folder, may be meant for all of them; a whole id is of one service only.
        """
        moving = {move["to"] for move in self.moves.values() if move["to"] != move["from"]} - {None}
        named = {move["to"] for move in self.moves.values()}
        if not (moving if wanted == VERIFIED else wanted in named):
            return set()
        staying = {name for name, _why in self.missing if self.moves[name]["from"]}
        for name in staying:
            active = self.moves[name]["from"]
            self.moves[name].update(to=active, back=active)
        return staying

    def serves(self, routers):
        """Tell whether requests reach this host now."""
        if routers:
            return any(worker.get("state") == "serving" for worker in self.workers)
        return any(service.get("active_state") == "active" for service in self.services)

    def lines(self):
        """Return [service, from, to] for each of its services."""
        return [[name, move["from"] or "nothing", move["to"]] for name, move in self.moves.items()]


def drained_sentence(host, worker):
    """Say who took a host out of its routers, and why."""
    return (
        f"{host} is drained by {worker.get('by') or 'nobody named'} since {worker.get('since') or 'an unknown time'}"
        f" ({worker.get('reason') or 'no reason given'})"
    )


def floors_of(workers, routers, units, minimum):
    """Return the floors of a fleet: in each router `minimum` units of all, and one of each service that has more.

    Who is written down as serving and is not healthy serves nobody. Without a minimum there is no floor of services.
    """
    floors = []
    for router in routers:
        serving, members = {"": set()}, {}
        for worker in (worker for worker in workers if worker["router"] == router):
            unit = units.get(worker["host"], worker["host"])
            members.setdefault(worker.get("service") or "", set()).add(unit)
            if worker.get("state") == "serving" and worker.get("healthy"):
                serving[""].add(unit)
                serving.setdefault(worker.get("service") or "", set()).add(unit)
        floors.append(fleet_batches.Floor(serving[""], minimum, router=router))
        floors += [
            fleet_batches.Floor(serving.get(service, set()), 1, found, router, service)
            for service, found in sorted(members.items())
            if minimum and service and len(found) > 1
        ]
    return floors


def workers_without_router(hosts):
    """Return what a router would say of hosts in front of which there is none."""
    return [
        {"router": "", "host": host.name, "service": service["name"], "state": "serving", "healthy": up}
        for host in hosts
        for service in host.services
        for up in [service.get("active_state") == "active"]
    ]


def stopped_routers(asked):
    """Return the names of routers whose host answered, and whose process does not run."""
    return [answer["item"] for answer in asked if answer.get("router_running") is False]


def floor_sentence(setting, floor, hosts):
    """Say that a batch would leave too few hosts serving."""
    where = f" in router {floor.router}" if floor.router else ""
    count = len(floor.serving)
    if floor.service:
        return (
            f"{', '.join(hosts)} cannot be taken out: {count} of {len(floor.members)} hosts of service {floor.service}"
            f"{where} serve now, and none would; bring another one back first, or set rollout_serving_minimum to 0."
        )
    return (
        f"rollout_serving_minimum is {setting}, which is {floor.least} here: {count} serve now{where}, so"
        f" {', '.join(hosts)} cannot be taken out; bring other hosts back first, add hosts, or lower it."
    )


def rollbacks_of(looks):
    """Return {service name: what rollbacks that did not end wrote down on hosts}."""
    found = {}
    for service in (service for look in looks for service in look["services"]):
        if undone_rollback(service):
            found.setdefault(service["item"], []).append(undone_rollback(service))
    return found


def contradictions(hosts):
    """Yield a sentence for each configuration that some hosts of a rollback would leave, and others would get.

    Hosts may have ids of their own, so the release counts as well, for hosts that get it from another one.
    """
    leaving, coming = {}, {}
    for host in hosts:
        for name, move in host.moves.items():
            before, after = move["from"], move["to"]
            if after is None or name in host.staying:
                continue
            gets = {after} | ({folder_of(after)} if before == after or folder_of(before) != folder_of(after) else set())
            leaves = {before, folder_of(before)} - gets if before else set()
            for found, keys in ((coming, gets), (leaving, leaves)):
                for key in keys:
                    found.setdefault((name, key), []).append(host.name)
    told = set()
    # The whole id where all hosts share it, and the release it is of where they do not.
    for name, key in sorted(set(leaving) & set(coming), key=lambda one: (one[0], -len(one[1]))):
        if (name, folder_of(key)) in told or (name, key) in told:
            continue
        told |= {(name, key), (name, folder_of(key))}
        yield (
            f"{', '.join(leaving[name, key])} would leave {key} of service {name}, and {', '.join(coming[name, key])}"
            " would get it or stay with it: a rollout or a rollback ended half way. Say where to:"
            f" -e rollback_to={key}."
        )


def plan(fleet):
    """Return the plan of a fleet: batches, moves, skipped hosts, refusals and text.

    fleet: looks (list of {host, unit, services, staged}), asked, routers, sizes, canary, minimum, wanted, change,
    drained_included. A service is what module service_config says of it in a loop over names.
    """
    routers = fleet.get("routers") or []
    workers, silent = workers_of(fleet.get("asked") or [])
    change, wanted = bool(fleet.get("change")), str(fleet.get("wanted") or "")
    rollbacks = rollbacks_of(fleet["looks"]) if wanted == VERIFIED else {}
    hosts = [Host(look, workers, wanted, change, rollbacks) for look in fleet["looks"]]
    # Nodes of one service go together, so that a drained one keeps the others as well.
    persons = {host.unit: host for host in hosts if host.person}
    kept_out = [] if fleet.get("drained_included") else [host for host in hosts if host.unit in persons]
    serving = {host.unit for host in hosts if host.serves(routers)}
    # Nodes of one service go together, and only one of them has an entry in the routers.
    undone = {host.unit for host in hosts if not host.proved or host.unfinished}
    undone |= {host.unit for host in hosts if routers and host.unit not in serving}
    done = [host for host in hosts if host not in kept_out and host.unit not in undone]
    left = [host for host in hosts if host not in kept_out and host not in done]
    refused = [f"{sentence}." for sentence in silent]
    refused += [
        f"{host.name}: service {name} has nothing to go to: {why}." for host in left for name, why in host.missing
    ]
    if wanted == VERIFIED and not change:
        refused += contradictions([host for host in hosts if host not in kept_out])
    own = {host.name for host in hosts}
    size = len({host.unit for host in hosts} | {worker["host"] for worker in workers if worker["host"] not in own})
    minimum = fleet_batches.amount(fleet["minimum"], size)
    units = {host.name: host.unit for host in hosts}
    floors = floors_of(workers if routers else workers_without_router(hosts), routers or [""], units, minimum)
    stopped = stopped_routers(fleet.get("asked") or [])
    counted = [len(floor.serving) for floor in floors if not floor.service and floor.router not in stopped]
    batches, forbidden = fleet_batches.make(
        [(host.name, host.unit) for host in left],
        fleet["sizes"],
        canary=fleet.get("canary") or [],
        unfinished=[host.name for host in left if host.unfinished],
        floors=floors,
    )
    if forbidden:
        refused.append(floor_sentence(fleet["minimum"], forbidden[1], forbidden[0]))
    by_name, with_whom = {host.name: host for host in hosts}, {host: persons[host.unit] for host in kept_out}
    for number, batch in enumerate(batches, start=1):
        batch["number"] = number
    return {
        "batches": batches,
        "moves": {host.name: host.moves for host in left},
        "units": units,
        "skipped": [host.name for host in done],
        "drained": {host.name: drained_sentence(host.name, host.person) for host in hosts if host.person},
        "left_out": [host.name for host in kept_out],
        "unfinished": [host.name for host in left if host.unfinished],
        "minimum": minimum,
        "refused": refused,
        "lines": [
            *_lines(batches, by_name, done, with_whom),
            f"{min(counted, default=0)} serve now, and {minimum} or more do all the time.",
            *(f"Router {router} does not run, and no batch begins until it does." for router in stopped),
            *left_beyond(workers, own).values(),
        ],
    }


def _lines(batches, hosts, done, kept_out):
    rows = [["batch", "host", "service", "from", "to", "note"]]
    for batch in batches:
        for name in batch["hosts"]:
            host = hosts[name]
            note = [batch["title"]] if batch["title"] else []
            note += ["stays drained"] if host.person else []
            for line in host.lines():
                rows.append([str(batch["number"]), name, *line, ", ".join(note)])
    for host in done:
        rows += [["none", host.name, name, now, "", "there already and verified"] for name, now, _to in host.lines()]
    for host, drained in kept_out.items():
        own = f"{drained_sentence(drained.name, drained.person)}: left alone"
        rows.append(["none", host.name, "", "", "", own if host.person else f"left alone with {drained.name}"])
    return table([[str(cell) for cell in row] for row in rows])


def capacity(question):
    """Tell whether a batch may be taken out now: {"allowed", "serving", "message"}.

    question: asked, routers, batch (host names), units ({host: unit}), minimum, setting.
    """
    routers, units = question.get("routers") or [], question.get("units") or {}
    if not routers:
        return {"allowed": True, "serving": None, "message": ""}
    batch = {units.get(name, name) for name in question["batch"]}
    asked = question.get("asked") or []
    workers, silent = workers_of(asked)
    if silent:
        return {"allowed": False, "serving": None, "message": f"{'; '.join(silent)}."}
    stopped = stopped_routers(asked)
    if stopped:
        told = f"router {', '.join(stopped)} does not run, so nobody knows whom it would serve; start it"
        return {"allowed": False, "serving": 0, "message": f"{told}."}
    floors = floors_of(workers, routers, units, question["minimum"])
    # The floor of all is told before that of a service, and of several routers the one that would be left with fewest.
    broken = sorted(
        (floor for floor in floors if floor.broken_by(batch)),
        key=lambda floor: (bool(floor.service), len(floor.serving - batch)),
    )
    message = floor_sentence(question["setting"], broken[0], sorted(question["batch"])) if broken else ""
    serving = min(len(floor.serving) for floor in floors if not floor.service)
    return {"allowed": not broken, "serving": serving, "message": message}
