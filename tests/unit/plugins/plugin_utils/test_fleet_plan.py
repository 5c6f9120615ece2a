# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who changes from what to what, who is skipped, drained or unfinished, and what is refused."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import fleet_plan, fleet_report

OLD, MID, NEW = "0.5.16-aaaaaaaaaaaa-11111111", "0.5.22-bbbbbbbbbbbb-22222222", "0.5.23-cccccccccccc-33333333"


def service(active=OLD, verified=(OLD,), rollout=None, invocation="i", state="active", **more):
    """What module service_config says of one service."""
    entries = [{"id": one, "invocation_id": "i" if one == active else "before"} for one in verified]
    kept = {"active": active, "verified": entries, "pending": None, "rollout": rollout}
    return {
        "item": "kimi",
        "state": kept,
        "active_state": state,
        "invocation_id": invocation,
        "configurations": [OLD, MID, NEW],
        **more,
    }


def note(before, after, phase="gate", wanted=""):
    """What a rollout writes down on its host; a rollback wants something."""
    return {"from": before, "to": after, "phase": phase, "wanted": wanted}


def worker(host, state="serving", by="", **more):
    """What a router says of one host."""
    told = {"url": f"http://{host}:30000", "host": host, "service": "kimi", "state": state, "by": by}
    return {**told, "reason": "why", "since": "then", "healthy": state == "serving", "in_router": True, **more}


def router(*workers, name="lb", **more):
    return {"item": name, "router_running": True, "workers": list(workers), **more}


def planned(services, routers=None, **settings):
    """The plan of {host: service}; each is staged to NEW. Without a router's answer, all hosts serve."""
    looks = [{"host": host, "unit": host, "services": [one], "staged": {"kimi": NEW}} for host, one in services.items()]
    asked = [router(*[worker(host) for host in services])] if routers is None else routers
    given = {"sizes": [1, "100%"], "minimum": 0, "wanted": "", **settings}
    return fleet_plan.plan({"looks": looks, "asked": asked, "routers": [one["item"] for one in asked], **given})


def hosts_of(plan):
    return [batch["hosts"] for batch in plan["batches"]]


def test_a_rollout_moves_every_host_from_its_verified_configuration_and_back():
    plan = planned({"a": service(), "b": service()})
    assert hosts_of(plan) == [["a"], ["b"]] and plan["refused"] == []
    assert plan["moves"]["a"] == {"kimi": {"from": OLD, "to": NEW, "back": OLD}}
    assert any(OLD in line and NEW in line and "canary" in line for line in plan["lines"])


@pytest.mark.parametrize(
    "one, skipped",
    [
        (service(NEW, (OLD, NEW)), True),
        # Verified before, and not this start.
        (service(NEW, (OLD, NEW), invocation="another"), False),
        (service(NEW, (OLD,)), False),
        (service(NEW, (NEW,), state="failed"), False),
        (service(NEW, (NEW,), rollout={"from": OLD, "to": NEW, "phase": "in"}), False),
    ],
)
def test_who_is_there_and_verified_since_the_start_is_skipped(one, skipped):
    assert (planned({"a": one})["skipped"] == ["a"]) is skipped


def test_who_is_there_and_not_served_is_put_back():
    assert planned({"a": service(NEW, (NEW,))}, [router()])["skipped"] == []
    assert planned({"a": service(NEW, (NEW,))}, [])["skipped"] == ["a"]


@pytest.mark.parametrize(
    "one, back",
    [
        (service(), OLD),
        (service(None, ()), None),
        # What is active was never verified: the newest that was.
        (service(MID, (OLD,)), OLD),
        # On the target already: an older one would be a surprise.
        (service(NEW, (OLD,)), None),
        # A rollout was broken off after its switch: where it came from.
        (service(NEW, (OLD,), rollout={"from": OLD, "to": NEW, "phase": "gate"}), OLD),
        (service(MID, (OLD, MID), rollout={"from": OLD, "to": MID, "phase": "gate"}), OLD),
        # The host keeps it no longer.
        (service(MID, ("gone-aaaaaaaaaaaa-44444444",)), None),
    ],
)
def test_where_a_host_goes_back_to(one, back):
    assert planned({"a": one})["moves"]["a"]["kimi"]["back"] == back


@pytest.mark.parametrize(
    "wanted, one, target",
    [
        ("verified", service(NEW, (OLD, MID, NEW)), MID),
        ("verified", service(NEW, (OLD,)), OLD),
        ("verified", service(OLD, (OLD,)), None),
        # What came after the active one does not count as back.
        ("verified", service(MID, (OLD, MID, NEW, MID)), OLD),
        ("verified", service(OLD, (OLD, NEW, OLD)), None),
        ("verified", service(NEW, (OLD, MID, NEW, MID, NEW)), MID),
        # Never verified: the newest that was.
        ("verified", service(NEW, (OLD, MID)), MID),
        # A rollback that was broken off leads where it led, before and after its switch.
        ("verified", service(NEW, (OLD, MID, NEW), rollout=note(NEW, OLD, "out", "verified")), OLD),
        ("verified", service(MID, (OLD, MID, NEW), rollout=note(NEW, MID, "gate", "0.5.22")), MID),
        # Even where the way it came from is the older one.
        ("verified", service(NEW, (OLD, MID), rollout=note(OLD, MID, "out", "verified")), MID),
        # A rollout that was broken off is undone, to where it began.
        ("verified", service(MID, (OLD, MID), rollout=note(MID, NEW, "out")), MID),
        ("verified", service(NEW, (OLD, MID, NEW), rollout=note(MID, NEW, "soak")), MID),
        ("verified", service(NEW, (OLD, MID), rollout=note(None, NEW)), MID),
        ("0.5.16", service(NEW, (OLD, MID, NEW)), OLD),
        ("0.5.16-aaaaaaaaaaaa", service(NEW, (OLD, NEW)), OLD),
        (OLD, service(NEW, (OLD, NEW)), OLD),
        ("0.5.16", service(OLD, (OLD,)), OLD),
        ("0.5.1", service(NEW, (OLD, NEW)), None),
        ("0.5.22", service(NEW, (OLD, NEW)), None),
    ],
)
def test_where_a_rollback_leads(wanted, one, target):
    plan = planned({"a": one}, wanted=wanted)
    if target is None:
        assert plan["refused"] and "a: service kimi has nothing to go to" in plan["refused"][0]
    elif "a" in plan["moves"]:
        assert plan["moves"]["a"]["kimi"]["to"] == target and plan["refused"] == []
    else:
        assert plan["skipped"] == ["a"] and target == one["state"]["active"]


def other(identity, mark="9"):
    """The same release with settings of another host."""
    return identity[:-8] + mark * 8


def test_a_killed_rollback_run_again_is_finished():
    killed = note(NEW, MID, "gate", "verified")
    hosts = {
        "a": service(MID, (OLD, MID, NEW, MID)),
        "b": service(MID, (OLD, MID, NEW), rollout=killed),
        "c": service(NEW, (OLD, MID, NEW)),
    }
    plan = planned(hosts, wanted="verified")
    assert plan["refused"] == [] and plan["skipped"] == ["a"] and hosts_of(plan) == [["b"], ["c"]]
    assert {plan["moves"][host]["kimi"]["to"] for host in "bc"} == {MID}
    assert plan["moves"]["b"]["kimi"]["back"] == NEW
    # Each host has a configuration of its own.
    hosts["a"] = service(other(MID), (other(OLD), other(MID), other(NEW), other(MID)))
    hosts["a"]["configurations"] = [other(one) for one in (OLD, MID, NEW)]
    plan = planned(hosts, wanted="verified")
    assert plan["refused"] == [] and plan["skipped"] == ["a"]


@pytest.mark.parametrize("same", [True, False])
def test_a_rollback_that_would_lead_hosts_past_each_other_is_refused(same):
    back = service(MID, (OLD, MID, NEW, MID))
    if not same:
        back = service(other(MID), [other(one) for one in (OLD, MID, NEW, MID)])
        back["configurations"] = [other(one) for one in (OLD, MID, NEW)]
    hosts = {"a": back, "b": service(NEW, (OLD, MID, NEW)), "c": service(NEW, (OLD, MID, NEW))}
    refused = planned(hosts, wanted="verified")["refused"]
    told = MID if same else MID[:-9]
    assert len(refused) == 1 and "a would leave" in refused[0] and "b, c" in refused[0], refused
    assert f"-e rollback_to={told}." in refused[0]
    named = planned(hosts, wanted=MID[:-9])
    assert named["refused"] == [] and named["skipped"] == ["a"]
    assert {named["moves"][host]["kimi"]["to"] for host in "bc"} == {MID}
    # A rollout that was killed on its way out, and hosts that it had not come to.
    begun = service(MID, (OLD, MID), rollout=note(MID, NEW, "out"))
    refused = planned({"a": begun, "b": service(MID, (OLD, MID))}, wanted="verified")["refused"]
    assert len(refused) == 1 and "b would leave" in refused[0] and f"rollback_to={MID}." in refused[0]


def test_a_rollback_of_settings_alone_is_no_contradiction():
    # One release all the time; each host has its own settings.
    hosts = {}
    for host, mark in (("a", "7"), ("b", "8")):
        before, after = other(OLD, mark), OLD[:-8] + mark * 7 + "0"
        hosts[host] = service(after, (before, after), configurations=[before, after])
    plan = planned(hosts, wanted="verified")
    assert plan["refused"] == [] and plan["moves"]["b"]["kimi"]["to"] == other(OLD, "8")


QWEN, QWEN_OLD = "0.5.30-dddddddddddd-44444444", "0.5.29-eeeeeeeeeeee-55555555"


def two_services(kimi, qwen, wanted="", **more):
    """The plan of one host with two services; the second is staged as it is."""
    services = [kimi, {**qwen, "item": "qwen", "configurations": [QWEN_OLD, QWEN]}]
    looks = [{"host": "a", "services": services, "staged": {"kimi": NEW, "qwen": QWEN}}]
    given = {"looks": looks, "asked": [], "routers": [], "sizes": [1], "minimum": 0, "wanted": wanted}
    return fleet_plan.plan({**given, **more})


def test_a_service_that_does_not_change_goes_back_to_what_it_is():
    stays = {"from": QWEN, "to": QWEN, "back": QWEN}
    plan = two_services(service(MID, (MID,)), service(QWEN, (QWEN_OLD, QWEN)))
    assert plan["moves"]["a"] == {"kimi": {"from": MID, "to": NEW, "back": MID}, "qwen": stays}
    # And also where that run was killed, and is run again.
    begun = service(QWEN, (QWEN_OLD, QWEN), rollout=note(QWEN, QWEN))
    plan = two_services(service(NEW, (MID,), rollout=note(MID, NEW)), begun)
    assert plan["moves"]["a"] == {"kimi": {"from": NEW, "to": NEW, "back": MID}, "qwen": stays}
    # Where nothing changes there is nothing to go back to.
    plan = two_services(service(NEW, (MID,)), service(QWEN, (QWEN,)))
    assert [move["back"] for move in plan["moves"]["a"].values()] == [None, None]


@pytest.mark.parametrize("wanted", ["verified", MID])
def test_a_rollback_leaves_a_service_as_it_is_that_cannot_go_with_the_other(wanted):
    plan = two_services(service(NEW, (MID, NEW)), service(QWEN, (QWEN,)), wanted)
    assert plan["refused"] == []
    assert plan["moves"]["a"]["kimi"] == {"from": NEW, "to": MID, "back": NEW}
    assert plan["moves"]["a"]["qwen"] == {"from": QWEN, "to": QWEN, "back": QWEN}


@pytest.mark.parametrize(
    "kimi, wanted",
    [
        # A release may be meant for all of them.
        (service(NEW, (MID, NEW)), "0.5.22"),
        # Nothing of the host goes anywhere.
        (service(NEW, (NEW,)), "verified"),
        (service(NEW, (NEW,)), MID),
    ],
)
def test_a_rollback_that_no_service_or_not_each_can_follow_is_refused(kimi, wanted):
    refused = two_services(kimi, service(QWEN, (QWEN,)), wanted)["refused"]
    assert any("a: service qwen has nothing to go to" in sentence for sentence in refused)


def test_nodes_of_one_service_go_together_and_count_as_one():
    done, looks = service(NEW, (NEW,)), []
    for host, unit, one in (("a", "x", done), ("b", "x", done), ("c", "y", done), ("d", "y", service())):
        looks.append({"host": host, "unit": unit, "services": [one], "staged": {"kimi": NEW}})
    # The second nodes have no entry in the router.
    asked = [router(worker("a"), worker("c"))]
    given = {"looks": looks, "asked": asked, "routers": ["lb"], "sizes": [1], "minimum": 1, "wanted": ""}
    plan = fleet_plan.plan(given)
    assert plan["skipped"] == ["a", "b"] and hosts_of(plan) == [["c", "d"]] and plan["refused"] == []
    assert fleet_plan.plan({**given, "minimum": 2})["refused"]


def test_who_a_person_drained_is_left_alone_and_named():
    asked = [router(worker("a", "drained", by="jo"), worker("b"))]
    plan = planned({"a": service(), "b": service()}, asked)
    assert plan["left_out"] == ["a"] and hosts_of(plan) == [["b"]]
    assert "drained by jo" in plan["drained"]["a"] and plan["drained"]["a"] in "\n".join(plan["lines"])
    assert hosts_of(planned({"a": service(), "b": service()}, asked, drained_included=True)) == [["a"], ["b"]]


def test_a_node_that_a_person_drained_keeps_its_whole_unit_out():
    looks = [
        {"host": host, "unit": unit, "services": [service()], "staged": {"kimi": NEW}}
        for host, unit in (("a", "x"), ("b", "x"), ("c", "c"))
    ]
    asked = [router(worker("a", "drained", by="jo"), worker("c"))]
    given = {"looks": looks, "asked": asked, "routers": ["lb"], "sizes": ["100%"], "minimum": 0, "wanted": ""}
    plan = fleet_plan.plan(given)
    assert plan["left_out"] == ["a", "b"] and hosts_of(plan) == [["c"]] and "b" not in plan["moves"]
    assert [line for line in plan["lines"] if " b " in line and "left alone with a" in line]
    assert hosts_of(fleet_plan.plan({**given, "drained_included": True})) == [["a", "b", "c"]]


def test_who_a_rollout_left_out_beyond_a_limit_is_named():
    asked = [router(worker("a", "drained", by="rollout"), worker("b"), worker("c", "drained", by="jo"))]
    plan = planned({"b": service()}, asked)
    told = [line for line in plan["lines"] if line.startswith("a is out of router lb")]
    assert len(told) == 1 and "why" in told[0] and "not in this run" in told[0] and hosts_of(plan) == [["b"]]
    assert not [line for line in plan["lines"] if line.startswith("c ")]


def test_what_a_rollout_left_comes_first():
    asked = [router(worker("a"), worker("b"), worker("c", "drained", by="rollout"))]
    half = service(MID, (OLD,), rollout={"from": OLD, "to": MID, "phase": "switch"})
    plan = planned({"a": service(), "b": half, "c": service()}, asked, sizes=["100%"])
    assert hosts_of(plan) == [["b", "c"], ["a"]] and plan["unfinished"] == ["b", "c"]


def test_the_floor_counts_the_whole_fleet():
    asked = [router(*[worker(host) for host in "abcd"])]
    # A limit to two hosts, and two others that serve.
    assert hosts_of(planned({"a": service(), "b": service()}, asked, sizes=["100%"], minimum="50%")) == [["a", "b"]]
    assert hosts_of(planned({"a": service(), "b": service()}, asked, sizes=["100%"], minimum=3)) == [["a"], ["b"]]
    refused = planned({"a": service()}, asked, minimum=4)["refused"]
    assert refused and "rollout_serving_minimum is 4" in refused[0] and "4 serve now" in refused[0]


def test_who_is_not_healthy_does_not_count_for_the_planned_floor():
    ill = [worker(host, healthy=host != "h") for host in "abcdefgh"]
    hosts = {host: service() for host in "abcdefgh"}
    plan = planned(hosts, [router(*ill)], sizes=["50%"], minimum="50%")
    assert plan["lines"][-1].startswith("7 serve now, and 4 or more")
    assert hosts_of(plan) == [["a", "b", "c"], ["d"], ["e", "f", "g", "h"]]
    # What is planned is what is asked before the batch.
    question = {"units": plan["units"], "minimum": plan["minimum"], "setting": "50%", "routers": ["lb"]}
    question["asked"] = [router(*ill)]
    assert fleet_plan.capacity({**question, "batch": ["a", "b", "c"]})["allowed"]
    assert not fleet_plan.capacity({**question, "batch": ["a", "b", "c", "d"]})["allowed"]
    # An entry that is written down is not put there once more.
    assert planned({"h": service(NEW, (NEW,))}, [router(*ill)])["skipped"] == ["h"]


def test_each_router_counts_for_the_planned_floor():
    asked = [router(*map(worker, "abcd")), router(*map(worker, "abc"), name="lb2")]
    plan = planned({host: service() for host in "abcd"}, asked, sizes=["100%"], minimum=2)
    assert hosts_of(plan) == [["a"], ["b"], ["c", "d"]] and plan["lines"][-1].startswith("3 serve now")
    asked[1]["router_running"] = False
    for one in asked[1]["workers"]:
        one["healthy"] = False
    plan = planned({host: service() for host in "abcd"}, asked, sizes=["100%"], minimum=2)
    assert "4 serve now" in plan["lines"][-2] and "lb2 does not run" in plan["lines"][-1]


def two_models(**more):
    """Two hosts of one service and four of another, of which each serves its own."""
    workers = [worker(host) for host in ("a1", "a2")]
    workers += [worker(host, service="qwen") for host in ("b1", "b2", "b3", "b4")]
    return [{**one, **more.get(one["host"], {})} for one in workers]


def test_a_service_is_never_left_with_nobody():
    looks = []
    for one in two_models():
        name = one["service"]
        looks.append({"host": one["host"], "services": [{**service(), "item": name}], "staged": {name: NEW}})
    given = {"looks": looks, "sizes": ["50%"], "wanted": "", "minimum": "50%"}
    for routers, asked in ((["lb"], [router(*two_models())]), ([], [])):
        plan = fleet_plan.plan({**given, "routers": routers, "asked": asked})
        assert hosts_of(plan) == [["a1"], ["a2", "b1"], ["b2", "b3", "b4"]] and plan["refused"] == []
    # Whoever wants no floor has none.
    plan = fleet_plan.plan({**given, "routers": ["lb"], "asked": [router(*two_models())], "minimum": 0})
    assert hosts_of(plan)[0] == ["a1", "a2", "b1"]
    # Its other host is out, and nothing of the plan brings it back before.
    out = router(*two_models(a2={"state": "drained", "by": "jo"}))
    refused = fleet_plan.plan({**given, "routers": ["lb"], "asked": [out]})["refused"]
    assert len(refused) == 1 and "a1" in refused[0] and "service kimi in router lb" in refused[0]


@pytest.mark.parametrize(
    "batch, more, allowed",
    [
        (["a1", "b1"], {}, True),
        (["a1", "a2"], {}, False),
        (["a1"], {"a2": {"healthy": False}}, False),
        (["b1", "b2"], {"a2": {"healthy": False}}, True),
        # Its last one is out already.
        (["a1", "a2"], {"a1": {"state": "drained"}, "a2": {"state": "drained"}}, True),
        # A service of one host can only go as a whole.
        (["a1"], {"a2": {"service": "qwen"}}, True),
    ],
)
def test_the_capacity_of_each_service(batch, more, allowed):
    asked = [router(*two_models(**more))]
    question = {"asked": asked, "routers": ["lb"], "batch": batch, "units": {}, "setting": 2}
    answer = fleet_plan.capacity({**question, "minimum": 2})
    assert answer["allowed"] is allowed and ("service kimi in router lb" in answer["message"]) is not allowed
    assert fleet_plan.capacity({**question, "minimum": 0})["allowed"]


def test_a_router_that_does_not_answer_is_named():
    plan = planned({"a": service()}, [router(name="lb1"), {"item": "lb2", "unreachable": True, "msg": "no route"}])
    assert plan["refused"] == ["router lb2 did not answer: no route."]


def test_a_change_of_the_driver_keeps_the_configuration_and_skips_nobody():
    plan = planned({"a": service(NEW, (NEW,))}, change=True)
    assert plan["moves"]["a"]["kimi"] == {"from": NEW, "to": NEW, "back": None} and plan["skipped"] == []
    assert planned({"a": service(None, ())}, change=True)["refused"]


@pytest.mark.parametrize(
    "asked, allowed, told",
    [
        ([router(worker("a"), worker("b"), worker("c"))], True, ""),
        ([router(worker("a"), worker("b"), worker("c", healthy=False))], False, "2 serve now"),
        ([router(worker("a"), worker("b", "drained"), worker("c", "drained"))], False, "1 serve now"),
        # Who is out already costs nothing.
        ([router(worker("a", "drained"), worker("b"))], True, ""),
        # The router that serves the fewest decides.
        ([router(*map(worker, "abc")), router(worker("a"), name="lb2")], False, "1 serve now"),
        ([router(*map(worker, "abc")), {"item": "lb2", "failed": True, "msg": "boom"}], False, "boom"),
        # One that serves fewer, and none of the batch, does not hide one that serves the batch.
        ([router(worker("a"), worker("b")), router(worker("c"), name="lb2")], False, "2 serve now in router lb,"),
        # A process that does not run serves nobody, and says nothing of who is left.
        (
            [router(*map(worker, "abc")), router(*map(worker, "abc"), name="lb2", router_running=False)],
            False,
            "router lb2 does not run",
        ),
        ([], True, ""),
    ],
)
def test_the_capacity_before_a_batch(asked, allowed, told):
    question = {"batch": ["a"], "units": {}, "minimum": 2, "setting": "50%"}
    answer = fleet_plan.capacity({"asked": asked, "routers": [one["item"] for one in asked], **question})
    assert answer["allowed"] is allowed and told in answer["message"]


def reported(hosts, lost=(), stopped="", asked=()):
    plan = {
        "batches": [{"number": 1, "title": "canary", "hosts": ["a"]}, {"number": 2, "title": "", "hosts": ["b"]}],
        "skipped": ["c"],
        "left_out": ["d"],
        "drained": {"d": "d is drained by jo"},
    }
    told = {host: {f"rollout_{name}": value for name, value in hosts.get(host, {}).items()} for host in "abcd"}
    given = {"order": list("abcd"), "hosts": told, "plan": plan, "lost": list(lost), "stopped": stopped}
    return fleet_report.report({**given, "asked": list(asked)})


GATE = {"phase": "gate", "message": "Task failed: Action failed: rank 1 is\nmissing"}


@pytest.mark.parametrize(
    "facts, outcome, told",
    [
        ({"done": True}, "done", None),
        ({}, "untouched", None),
        ({"done": True, "back": "done"}, "went back", None),
        ({"failure": GATE, "back": "done"}, "went back", "a failed at the gate: rank 1 is missing."),
        ({"failure": GATE, "back": "none"}, "out", "There is nothing to go back to"),
        ({"failure": GATE, "back": "failed", "back_message": "it broke"}, "out", "could not go back"),
        ({"done": True, "back": "failed", "back_message": "it broke"}, "out", "it broke."),
        ({"failure": GATE}, "failed", "at the gate"),
    ],
)
def test_the_outcome_of_a_host(facts, outcome, told):
    report = reported({"a": facts})
    assert report["lines"][1].split()[:2] == ["a", "1"] and outcome in report["lines"][1]
    assert (told is None and report["problems"] == []) or told in report["problems"][0]


def test_the_report_names_who_a_rollout_left_out_beyond_a_limit():
    asked = [
        router(worker("a"), worker("z", "drained", by="rollout"), worker("y", "drained", by="jo")),
        router(worker("z", "drained", by="rollout"), name="lb2"),
    ]
    report = reported({"a": {"done": True}}, asked=asked)
    assert report["out"] == ["z"] and report["problems"] == []
    told = [line for line in report["lines"] if line.startswith("z ")]
    assert len(told) == 1 and "out of router lb, lb2" in told[0] and "not in this run" in told[0], told


def test_who_is_lost_drained_or_skipped_is_named():
    asked = [router(worker("a", "drained", by="rollout"), worker("b"), worker("d", "drained", by="jo"))]
    report = reported({"a": {"phase": "soak"}}, lost=["a"], stopped="Batch 1 failed at a.", asked=asked)
    assert report["problems"][0] == "Batch 1 failed at a."
    assert "a could not be reached any more (in the soak)" in report["problems"][1]
    assert report["out"] == ["a", "d"] and "d is drained by jo" in report["lines"]
    assert [line.split()[1] for line in report["lines"][1:5]] == ["1", "2", "none", "none"]
    assert "there already" in report["lines"][3] and "left alone" in report["lines"][4]
