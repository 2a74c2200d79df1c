//! Each operation, its retries, deadlines, cancellations and faults.

use aos_sdk::{Duration, Effect, Named, Set, Time, encode};

use crate::programs::{Bell, Do, Done, Later, Narrow, Node, Note, Run, Told, Undo};
use crate::world::{
    Code, HOUR, Sent, World, cancel, error, failure, fired, go_on, mail, ok, receipt, rejected,
    resume, returned, start,
};

pub fn node(op: &str, name: &str) -> Node {
    Node {
        op: op.into(),
        name: name.into(),
        number: 3,
        span: Duration::seconds(1),
        limit: None,
        text: String::new(),
        flags: Set::new(),
        every: 1,
        keep: 0,
        nodes: Vec::new(),
    }
}

fn flagged(op: &str, name: &str, flags: &[&str]) -> Node {
    Node { flags: flags.iter().map(|flag| String::from(*flag)).collect(), ..node(op, name) }
}

/// A tree of nodes: node and children.
struct Tree(Node, Vec<Tree>);

fn leaf(node: Node) -> Tree {
    Tree(node, Vec::new())
}

fn step(name: &str) -> Tree {
    leaf(node("step", name))
}

/// A branch with these nodes.
fn part(name: &str, nodes: Vec<Tree>) -> Tree {
    Tree(node("branch", name), nodes)
}

fn run(trees: Vec<Tree>) -> Run {
    fn add(tree: Tree, nodes: &mut Vec<Node>) -> u64 {
        let Tree(mut node, children) = tree;
        node.nodes = children.into_iter().map(|child| add(child, nodes)).collect();
        nodes.push(node);
        nodes.len() as u64 - 1
    }
    let mut nodes = Vec::new();
    let body = trees.into_iter().map(|tree| add(tree, &mut nodes)).collect();
    Run { id: "o-1".into(), nodes, body }
}

fn world(trees: Vec<Tree>) -> (World, Sent) {
    let mut world = World::new(Code::nodes::<Later>("earlier"));
    let sent = world.send(&start(&run(trees)));
    (world, sent)
}

fn done(note: &str) -> Done {
    Done { note: note.into() }
}

fn note(text: &str) -> Vec<u8> {
    mail("M0", &encode(&Note { id: "o-1".into(), text: text.into() }))
}

fn bell(text: &str) -> Vec<u8> {
    mail("M1", &encode(&Bell { id: "o-1".into(), text: text.into() }))
}

#[test]
fn a_step_is_requested_once_and_its_value_is_read_in_every_turn() {
    let (mut world, sent) = world(vec![step("one"), step("two")]);
    assert_eq!(sent.references(), ["flow:one#1"]);
    assert_eq!(sent.intents[0].effect, Do::EFFECT);

    let sent = world.send(&ok("flow:one#1", &done("a")));
    assert_eq!(sent.references(), ["flow:two#1"]);
    let before = world.state.clone();
    world.send(&ok("flow:one#1", &done("late")));
    assert_eq!(world.state, before);
    world.send(&ok("flow:two#1", &done("b")));

    assert_eq!(world.output::<String>(), "a;b;");
}

#[test]
fn a_step_is_retried_after_its_pause_until_it_is_exhausted() {
    let (mut world, _) = world(vec![leaf(flagged("step", "one", &["catch"]))]);
    for attempt in [1, 2] {
        let sent = world.send(&error(&format!("flow:one#{attempt}"), "error", "busy", true));
        assert_eq!(sent.references(), [format!("flow:one#{attempt}:retry")]);
        world.now = sent.intents[0].due();
        let sent = world.send(&fired(&format!("flow:one#{attempt}:retry")));
        assert_eq!(sent.references(), [format!("flow:one#{}", attempt + 1)]);
    }
    world.send(&error("flow:one#3", "error", "busy", true));

    assert_eq!(world.output::<String>(), "!exhausted.busy@one[];");
}

#[test]
fn every_answer_to_a_step_is_the_same_failure() {
    let answers = [
        (error("flow:one#1", "error", "rollback", false), "rollback.rollback"),
        (error("flow:one#1", "error", "broken", false), "critical.broken"),
        (error("flow:one#1", "timeout", "slow", false), "timeout.timeout"),
        (error("flow:one#1", "canceled", "by_hand", false), "canceled.canceled"),
        (rejected("flow:one#1"), "critical.schema"),
        (receipt("flow:one#1", "error", b"", "x/Other@1"), "critical.receipt"),
    ];
    for (answer, expected) in answers {
        let flags = ["catch", "rollback_unknown"];
        let (mut world, _) = world(vec![leaf(flagged("step", "one", &flags))]);
        world.send(&answer);
        assert_eq!(world.output::<String>(), format!("!{expected}@one[];"));
    }
}

#[test]
fn a_step_whose_timeout_has_come_waits_for_its_answer_if_it_has_a_rollback() {
    let limited = Node { limit: Some(Duration::hours(1)), ..flagged("step", "one", &["rollback"]) };
    let (mut world, sent) = world(vec![leaf(limited), step("two")]);
    assert_eq!(sent.references(), ["flow:one#1:timeout", "flow:one#1"]);

    world.now += HOUR;
    let sent = world.send(&fired("flow:one#1:timeout"));
    assert_eq!(sent.references(), ["flow:one#1:cancel"]);
    world.send(&ok("flow:one#1", &done("kept")));
    world.send(&error("flow:two#1", "error", "broken", false));

    // The flow fails, and the compensation that the program made runs.
    assert_eq!(world.status(), "rolling_back");
    let sent = world.send(&ok("flow:one/~undo#1", &done("undone")));
    assert!(sent.intents.is_empty());
    assert_eq!(world.status(), "failed");
}

#[test]
fn a_retry_without_sense_is_a_failure() {
    let never = Node { number: 0, ..flagged("step", "one", &["catch"]) };
    let back = Node { span: Duration::from_ns(-1), ..flagged("step", "two", &["catch"]) };
    let (world, sent) = world(vec![leaf(never), leaf(back)]);

    assert!(sent.intents.is_empty());
    assert_eq!(world.output::<String>(), "!critical.retry@one[];!critical.duration@two[];");
}

#[test]
fn values_events_and_sleeps_are_the_same() {
    let (mut world, sent) = world(vec![
        leaf(node("local", "at")),
        leaf(node("emit", "tell")),
        leaf(node("sleep", "nap")),
        leaf(node("sleep_until", "past")),
        leaf(Node { span: Duration::from_ns(-1), ..flagged("sleep", "never", &["catch"]) }),
    ]);
    assert_eq!(sent.events, [(Told::NAME.into(), encode(&Told { text: "tell".into() }))]);
    assert_eq!(sent.references(), ["flow:nap#1:sleep"]);
    assert_eq!(world.status(), "sleeping");

    world.now += HOUR;
    world.send(&fired("flow:nap#1:sleep"));

    assert_eq!(world.output::<String>(), "at=0;;;;!critical.duration@never[];");
}

#[test]
fn messages_are_taken_in_their_order_against_deadlines() {
    let listens = ["listen", "listen_either", "listen_n", "listen_with_timeout"];
    let others = ["listen_until", "listen_n_with_timeout", "listen_n_until"];
    let trees = listens.iter().chain(&others).map(|op| leaf(node(op, op))).collect();
    let mut world = World::new(Code::nodes::<Later>("earlier"));
    // Before the start.
    world.send(&bell("zero"));
    assert_eq!(world.status(), "pending");
    world.send(&start(&run(trees)));
    for text in ["one", "two", "three", "four"] {
        world.send(&note(text));
    }
    world.send(&bell("five"));
    let due = world.send(&go_on());
    assert!(due.intents.is_empty());
    world.now += HOUR;
    let reference = ["listen_until", "listen_n_with_timeout", "listen_n_until"];
    for name in reference {
        world.send(&fired(&format!("flow:{name}#1:listen")));
    }

    let output: String = world.output();
    assert!(output.starts_with("one;zero;two;three;"), "{output}");
}

#[test]
fn a_listen_for_no_messages_is_a_failure() {
    let none = Node { number: 0, ..flagged("listen_n", "none", &["catch"]) };
    let (world, _) = world(vec![leaf(none)]);
    assert_eq!(world.output::<String>(), "!critical.count@none[];");
}

#[test]
fn a_join_waits_for_all_branches_and_a_replay_passes_over_those_that_ended() {
    let branches =
        |name: &str| vec![part("left", vec![step(name)]), part("right", vec![step("b")])];
    let (mut world, sent) = world(vec![Tree(node("join", "both"), branches("a")), step("last")]);
    assert_eq!(sent.references(), ["flow:both/left/a#1", "flow:both/right/b#1"]);

    world.send(&ok("flow:both/right/b#1", &done("B")));
    // A turn that reads ahead asks the program about the value of the branch.
    world.send(&go_on());
    let sent = world.send(&ok("flow:both/left/a#1", &done("A")));
    assert_eq!(sent.references(), ["flow:last#1"]);
    world.send(&ok("flow:last#1", &done("L")));

    assert_eq!(world.output::<String>(), "A;|B;;L;");
}

#[test]
fn a_join_runs_at_most_so_many_branches_at_the_same_time() {
    let parts = ["a", "b", "c"].map(|name| part(name, vec![step("s")]));
    let two = Node { number: 2, ..node("join", "some") };
    let (mut world, sent) = world(vec![Tree(two, parts.into())]);
    assert_eq!(sent.references(), ["flow:some/a/s#1", "flow:some/b/s#1"]);

    let sent = world.send(&ok("flow:some/b/s#1", &done("B")));
    assert_eq!(sent.references(), ["flow:some/c/s#1"]);
    world.send(&ok("flow:some/c/s#1", &done("C")));
    world.send(&error("flow:some/a/s#1", "error", "broken", false));

    assert_eq!(world.status(), "failed");
    let none = Node { number: 0, ..flagged("join", "none", &["catch"]) };
    let (world, _) = self::world(vec![Tree(none, vec![part("a", vec![])])]);
    assert_eq!(world.output::<String>(), "!critical.at_most@none[];");
}

#[test]
fn a_race_ends_with_the_first_success_and_cancels_the_losers() {
    let race = |flags: &[&str]| {
        let slow = part("slow", vec![leaf(flagged("step", "s", &["rollback"])), step("more")]);
        let called = part("called", vec![leaf(node("listen", "note")), step("then")]);
        let nap = part("nap", vec![leaf(node("sleep", "n"))]);
        Tree(flagged("race", "first", flags), vec![slow, called, nap])
    };
    for flags in [&[][..], &["rollback_losers"]] {
        let (mut world, sent) = world(vec![race(flags), leaf(node("listen", "after"))]);
        assert_eq!(sent.references(), ["flow:first/slow/s#1", "flow:first/nap/n#1:sleep"]);
        let sent = world.send(&note("taken, and given back"));
        assert_eq!(sent.references(), ["flow:first/called/then#1"]);
        world.send(&ok("flow:first/slow/s#1", &done("S")));
        world.now += HOUR;
        let sent = world.send(&fired("flow:first/nap/n#1:sleep"));
        let undoes = sent.references().contains(&"flow:first/slow/s/~undo#1");
        assert_eq!(undoes, !flags.is_empty(), "{sent:?}");
        if undoes {
            world.send(&ok("flow:first/slow/s/~undo#1", &done("undone")));
        }
        assert_eq!(world.output::<String>(), "nap=;;taken, and given back;");
    }
}

#[test]
fn a_loser_whose_result_comes_in_the_same_turn_registers_its_compensation() {
    let slow = part("slow", vec![leaf(flagged("step", "s", &["rollback"]))]);
    let nap = part("nap", vec![leaf(node("sleep", "n"))]);
    let (mut world, _) = world(vec![Tree(node("race", "first"), vec![slow, nap]), step("last")]);
    world.now += HOUR;
    // The loser has a rollback, so its answer has to come first.
    let sent = world.send(&fired("flow:first/nap/n#1:sleep"));
    assert_eq!(sent.references(), ["flow:first/slow/s#1:cancel"]);
    let sent = world.send(&ok("flow:first/slow/s#1", &done("S")));
    assert_eq!(sent.references(), ["flow:last#1"]);
    let sent = world.send(&error("flow:last#1", "error", "broken", false));
    assert_eq!(sent.references(), ["flow:first/slow/s/~undo#1"]);
}

#[test]
fn a_race_of_failures_fails_and_a_rollback_ends_it_at_once() {
    let fail = |code: &str, flags: &[&str]| {
        leaf(Node { text: code.into(), ..flagged("fail", "fail", flags) })
    };
    let parts = vec![part("a", vec![fail("x", &[])]), part("b", vec![fail("y", &[])])];
    let (world, _) = self::world(vec![Tree(flagged("race", "r", &["catch"]), parts)]);
    let output: String = world.output();
    assert_eq!(output, "!race.race@r[!critical.x@r/a[]!critical.y@r/b[]];");

    let parts = vec![part("a", vec![step("s")]), part("b", vec![fail("y", &["rollback"])])];
    let (world, sent) = self::world(vec![Tree(flagged("race", "r", &["catch"]), parts)]);
    assert_eq!(sent.intents.len(), 2, "the step and its cancellation");
    assert_eq!(world.output::<String>(), "!rollback.y@r/b[];");
}

#[test]
fn scopes_and_loops_collapse_into_their_results() {
    let scope = Tree(node("scope", "inner"), vec![step("s"), leaf(node("local", "l"))]);
    let (mut world, sent) = world(vec![scope, step("last")]);
    assert_eq!(sent.references(), ["flow:inner/s#1"]);
    world.send(&ok("flow:inner/s#1", &done("S")));
    world.send(&ok("flow:last#1", &done("L")));
    assert_eq!(world.output::<String>(), "S;l=0;;L;");

    let kept = Node { number: 4, every: 2, keep: 1, ..node("loop", "days") };
    let body = vec![step("s"), Tree(node("scope", "in"), vec![leaf(node("local", "l"))])];
    let (mut world, _) = self::world(vec![Tree(kept, body)]);
    for day in 0..4 {
        let sent = world.send(&ok(&format!("flow:days/~{day}/s#1"), &done("S")));
        assert_eq!(sent.fault, None);
    }
    let output: String = world.output();
    assert!(output.contains("l.3=0;"), "{output}");
    let never = Node { every: 0, ..flagged("loop", "never", &["catch"]) };
    let (world, _) = self::world(vec![Tree(never, vec![])]);
    assert_eq!(world.output::<String>(), "!critical.interval@never[];");
}

#[test]
fn a_failure_ends_its_loop_and_scope() {
    let fail = leaf(Node { text: "x".into(), ..node("fail", "fail") });
    let looped = Tree(node("loop", "days"), vec![Tree(node("scope", "in"), vec![fail])]);
    let (world, _) = world(vec![Tree(flagged("scope", "out", &["catch"]), vec![looped])]);
    assert_eq!(world.output::<String>(), "!critical.x@out/days/~0/in[];");
}

#[test]
fn a_rollback_to_a_checkpoint_undoes_and_goes_on_and_a_commit_makes_final() {
    let undone = |name: &str| leaf(flagged("step", name, &["rollback"]));
    let back = |name: &str, to: &str, flags: &[&str]| {
        leaf(Node { text: to.into(), ..flagged("rollback_to", name, flags) })
    };
    let (mut world, _) = world(vec![
        undone("before"),
        leaf(node("commit", "final")),
        leaf(node("checkpoint", "here")),
        undone("one"),
        undone("two"),
        back("undo", "here", &[]),
        back("nowhere", "there", &["catch"]),
        step("last"),
    ]);
    for name in ["before", "one"] {
        world.send(&ok(&format!("flow:{name}#1"), &done(name)));
    }
    let sent = world.send(&ok("flow:two#1", &done("two")));
    assert_eq!(sent.intents[0].effect, Undo::EFFECT);
    assert_eq!(sent.references(), ["flow:two/~undo#1"]);
    let sent = world.send(&error("flow:two/~undo#1", "error", "busy", false));
    assert_eq!(sent.references(), ["flow:two/~undo#1:retry"]);
    let sent = world.send(&fired("flow:two/~undo#1:retry"));
    assert_eq!(sent.references(), ["flow:two/~undo#2"]);
    world.send(&ok("flow:two/~undo#2", &done("x")));
    let sent = world.send(&ok("flow:one/~undo#1", &done("x")));
    assert_eq!(sent.references(), ["flow:last#1"]);
    world.send(&error("flow:last#1", "error", "broken", false));

    assert_eq!(world.status(), "failed", "the committed step is not undone");
}

#[test]
fn a_stuck_compensation_is_resumed_or_skipped() {
    let (mut world, _) = world(vec![leaf(flagged("step", "one", &["rollback"])), step("two")]);
    world.send(&ok("flow:one#1", &done("one")));
    world.send(&error("flow:two#1", "error", "broken", false));
    for attempt in 1..=5 {
        world.send(&error(&format!("flow:one/~undo#{attempt}"), "error", "busy", false));
        world.send(&fired(&format!("flow:one/~undo#{attempt}:retry")));
    }
    assert_eq!(world.status(), "stuck");
    let sent = world.send(&resume(false));
    assert_eq!(sent.references(), ["flow:one/~undo#6"]);
    world.send(&cancel(false));
    assert_eq!(world.status(), "failed");
}

#[test]
fn a_cancel_cancels_what_is_open_and_runs_the_compensations() {
    for rollback in [true, false] {
        let parts = vec![part("a", vec![step("s")]), part("b", vec![leaf(node("listen", "l"))])];
        let (mut world, _) = world(vec![
            leaf(flagged("step", "one", &["rollback"])),
            Tree(node("join", "both"), parts),
        ]);
        world.send(&ok("flow:one#1", &done("one")));
        let sent = world.send(&cancel(rollback));
        let undoes = sent.references().contains(&"flow:one/~undo#1");
        assert_eq!(undoes, rollback);
        assert!(sent.intents.iter().any(|intent| intent.effect == "sys/effect.cancel@1"));
        if rollback {
            world.send(&ok("flow:one/~undo#1", &done("x")));
        }
        assert_eq!(world.status(), "cancelled");
    }
}

#[test]
fn a_canceled_step_with_a_rollback_that_succeeds_is_undone() {
    let (mut world, _) = world(vec![leaf(flagged("step", "one", &["rollback"])), step("two")]);
    let sent = world.send(&cancel(true));
    assert_eq!(sent.references(), ["flow:one#1:cancel"]);
    let sent = world.send(&ok("flow:one#1", &done("one")));
    assert_eq!(sent.references(), ["flow:one/~undo#1"]);
}

#[test]
fn calls_and_spawns_reach_other_flows() {
    let child = |op: &str, name: &str, flags: &[&str]| {
        Tree(Node { text: "kid".into(), ..flagged(op, name, flags) }, vec![step("s")])
    };
    let (mut world, sent) = world(vec![
        child("spawn", "aside", &[]),
        child("call", "ask", &["rollback"]),
        child("call", "again", &["catch"]),
        step("last"),
    ]);
    let schemas: Vec<&str> = sent.events.iter().map(|(schema, _)| &**schema).collect();
    assert_eq!(schemas, ["f/Part@1", "f/PartCall@1"]);
    world.send(&returned("ask", Ok(&encode(&String::from("answer")))));
    world.send(&returned("again", Err(&failure("critical", "exists"))));
    let sent = world.send(&error("flow:last#1", "error", "broken", false));
    assert_eq!(sent.references(), ["flow:ask/~undo#1"]);

    let (mut world, _) = self::world(vec![child("call", "ask", &[])]);
    let sent = world.send(&cancel(true));
    assert_eq!(sent.events[0].0, "f/PartControl@1");
}

#[test]
fn versions_and_removed_operations_are_recorded_and_divergence_is_the_same_fault() {
    let removed = Node { number: 2, ..flagged("removed", "old", &["later"]) };
    let version = Node { number: 2, ..flagged("version", "v", &["earlier"]) };
    let trees = || {
        vec![
            leaf(flagged("step", "old", &["later"])),
            leaf(Node {
                flags: ["earlier"].iter().map(|f| String::from(*f)).collect(),
                ..removed.clone()
            }),
            leaf(version.clone()),
            step("last"),
        ]
    };
    let (mut world, sent) = world(trees());
    assert_eq!(sent.references(), ["flow:old#1"]);
    world.code = Code::nodes::<Narrow>("later");
    let sent = world.send(&go_on());
    assert_eq!(sent.references(), ["flow:last#1"]);
    world.send(&ok("flow:last#1", &done("L")));
    assert_eq!(world.output::<String>(), ";2;L;");

    let (mut world, _) = self::world(vec![leaf(flagged("step", "old", &["later"])), step("last")]);
    world.code = Code::nodes::<Narrow>("later");
    let sent = world.send(&ok("flow:old#1", &done("x")));
    assert_eq!(sent.fault(), "diverged");
}

#[test]
fn bad_names_are_the_same_faults() {
    let long = "n".repeat(129);
    for trees in [
        vec![step("")],
        vec![step(&long)],
        vec![leaf(node("local", "twice")), step("twice")],
        vec![Tree(node("join", "j"), vec![part("a", vec![]), part("a", vec![])])],
    ] {
        let (_, sent) = world(trees);
        assert_eq!(sent.fault(), "flow_name", "{sent:?}");
    }
}

#[test]
fn a_receipt_of_another_type_is_the_same_divergence() {
    for flags in [&[][..], &["rollback"]] {
        let (mut world, _) = world(vec![leaf(flagged("step", "one", flags))]);
        let sent = world.send(&receipt("flow:one#1", "ok", b"\xf5", "f/Done@1"));
        assert_eq!(sent.fault(), "diverged");
    }
}

#[test]
fn a_turn_without_room_is_held_and_goes_on_later() {
    let narrow = Node { number: 3, ..node("loop", "days") };
    let body = vec![leaf(node("emit", "e")), leaf(node("local", "l"))];
    let parts = (0..5).map(|at| part(&format!("p{at}"), vec![step("s")])).collect();
    let trees = vec![Tree(narrow, body), Tree(node("race", "first"), parts), step("last")];
    let mut world = World::new(Code::nodes::<Narrow>("later"));
    let sent = world.send(&start(&run(trees)));
    assert!(sent.events.iter().any(|(schema, _)| schema == "f/RunControl@1"), "{sent:?}");
    for _ in 0..8 {
        world.send(&go_on());
    }
    world.send(&ok("flow:first/p0/s#1", &done("S")));
    for _ in 0..8 {
        world.send(&go_on());
    }
    world.send(&ok("flow:last#1", &done("L")));
    let output: String = world.output();
    assert!(output.ends_with("p0=S;;L;"), "{output}");
}

#[test]
fn the_time_of_a_local_is_that_of_its_turn() {
    let (mut world, _) = world(vec![step("one"), leaf(node("local", "at"))]);
    let begun = Time::from_ns(world.now as i64);
    world.now += HOUR;
    world.send(&ok("flow:one#1", &done("x")));
    let elapsed = Time::from_ns(world.now as i64) - begun;
    assert_eq!(world.output::<String>(), format!("x;at={};", elapsed.ns()));
}
