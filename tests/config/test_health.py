"""`health`: what checks become, and what is wrong with them."""

import pytest

from agent.core.entry.check import ONE_LOOK, Check, LookCount, LookDuration, OnUnknown
from agent.core.entry.counter_check import CounterCheck
from agent.core.entry.derived_words import DefaultedWord, ProbeWord
from agent.core.entry.kernel_log import ONE_EVENT, EventRate, LogMatch
from agent.core.entry.query import ProbeSpec, ServiceProtocol
from agent.core.entry.query_check import ProbeTemplate, RunTemplate, SocketTemplate
from agent.core.language.template import parse
from agent.core.language.value import ValueType
from tests.config.marks import marked_by

HEAD = '[[resource]]\nname = "example.com/x"\nsource = { subsystem = "npu" }\nid = "{path_id}"\n'


def checks(configure, lines, head=HEAD):
    found = configure({"resources.d/a.toml": head + lines + "\n"})
    assert found.findings == ()
    (spec,) = found.resources
    return spec.checks


def course(check: Check):
    return check.interval, check.failure_threshold, check.recovery_threshold, check.on_unknown


def test_what_is_not_said(configure):
    (check,) = checks(configure, 'health.link.holds = { driver = "x" }')
    assert course(check) == (None, LookCount(1), LookCount(1), OnUnknown.UNHEALTHY)
    assert (check.name, check.condition, check.reason) == ("link", None, None)
    (line,) = check.criterion.clause.lines
    assert (line.address, line.word, str(line.origin)) == ("health.link.holds.driver", "driver", "resources.d/a.toml:5")


@pytest.mark.parametrize(
    ("said", "made"),
    [
        ("trip = 1", (None, LookCount(1), LookCount(1), OnUnknown.UNHEALTHY)),
        ('trip = "2s", recover = "10m"', (None, LookDuration(2), LookDuration(600), OnUnknown.UNHEALTHY)),
        ('every = "5s", trip = "2 looks"', (5, LookCount(2), LookCount(1), OnUnknown.UNHEALTHY)),
        ('every = "500ms", recover = "1 look"', (0.5, LookCount(1), LookCount(1), OnUnknown.UNHEALTHY)),
        ('recover = "never"', (None, LookCount(1), None, OnUnknown.UNHEALTHY)),
        ("latch = true", (None, LookCount(1), None, OnUnknown.UNHEALTHY)),
        ('latch = false, recover = "1s"', (None, LookCount(1), LookDuration(1), OnUnknown.UNHEALTHY)),
        ('on_unknown = "healthy"', (None, LookCount(1), LookCount(1), OnUnknown.HEALTHY)),
        ('on_unknown = "keep"', (None, LookCount(1), LookCount(1), OnUnknown.KEEP)),
    ],
)
def test_course(configure, said, made):
    (check,) = checks(configure, f'health.link = {{ holds.driver = "x", {said} }}')
    assert course(check) == made


def test_looks_may_come_from_the_source(configure):
    head = HEAD.replace('"npu" }', '"npu", every = "1s" }')
    (check,) = checks(configure, 'health.a = { holds.driver = "x", trip = "2 looks" }', head)
    assert check.failure_threshold == LookCount(2)


def test_words_of_the_entry(configure):
    """`let` in clauses, `when` and the reason; several lists in that."""
    (check,) = checks(
        configure,
        'let = { state = "./state", heat = { read = "./temp", type = "int" }, all = { read_all = "./p*/s" } }\n'
        "[resource.health.state]\n"
        'holds = { state = "ready", heat.at_most = 95000, all.none = "down" }\n'
        'when = { "./on" = "1" }\n'
        'reason = "it says {state|upper} at {heat} m°C: {all}, {nodes}"',
    )
    assert [line.word for line in check.criterion.clause.lines] == ["state", "heat", "all"]
    assert [line.address for line in check.condition.lines] == ["health.state.when../on"]
    assert [slot.word for slot in check.reason.slots] == ["state", "heat", "all", "nodes"]


def test_an_entry_says_more_of_its_class_and_order_is_kept(configure):
    found = configure(
        {
            "classes/npu.toml": 'about = "x"\nname = "example.com/npu"\nid = "{path_id}"\n'
            'source = { subsystem = "npu" }\n'
            '[health.link]\nholds = { driver = "x" }\ntrip = "10s"\n[health.heat]\nholds = { "./hot" = "0" }\n',
            "resources.d/a.toml": '[[resource]]\nclass = "npu"\n[resource.health]\n'
            'more = { holds = { "./ok" = "1" } }\nlink = { trip = "30s" }\n',
            "resources.d/b.toml": '[[resource]]\nclass = "npu"\nname = "example.com/b"\nhealth = { heat = false }\n',
        }
    )
    assert found.is_valid
    a, b = found.resources
    assert [(check.name, check.failure_threshold) for check in a.checks] == [
        ("link", LookDuration(30)),
        ("heat", LookCount(1)),
        ("more", LookCount(1)),
    ]
    assert [check.name for check in b.checks] == ["link"]
    assert a.drop_origin() != b.drop_origin()


@pytest.mark.parametrize(
    ("said", "made"),
    [
        ("run = ['/bin/x']", RunTemplate((parse("/bin/x"),), 2, 30)),
        (
            "run = ['/bin/x', '-d={node}', ''], timeout = '10s', every = '1m', trip = '2 looks'",
            RunTemplate((parse("/bin/x"), parse("-d={node}"), parse("")), 10, 60),
        ),
        ("socket = '/run/{name}.sock'", SocketTemplate(parse("/run/{name}.sock"), 2, 30)),
        ("socket = '/run/x', every = '5s', timeout = '100ms'", SocketTemplate(parse("/run/x"), 0.1, 5)),
        ("socket = '/run/x', of = '{name}-a'", SocketTemplate(parse("/run/x"), 2, 30, parse("{name}-a"))),
        ("socket = '/run/x', speaks = 'grpc-health'", SocketTemplate(parse("/run/x"), 2, 30)),
        (
            "socket = '/run/x', of = '{path_id}', speaks = 'amd-metrics'",
            SocketTemplate(parse("/run/x"), 2, 30, parse("{path_id}"), ServiceProtocol.AMD_METRICS),
        ),
    ],
)
def test_whom_to_ask(configure, said, made):
    """How often is of whom is asked, not of looks; and that several looks are counted is no chance."""
    (check,) = checks(configure, f"health.a = {{ {said} }}")
    assert (check.criterion, check.interval) == (made, None)


def test_a_probe_is_of_the_entry_its_class_or_agent_toml(configure):
    found = configure(
        {
            "agent.toml": '[probe.all]\nrun = ["/bin/all", "-x"]\n[probe.own]\nrun = ["/bin/other"]\n',
            "classes/npu.toml": 'about = "x"\nname = "example.com/npu"\nid = "{path_id}"\n'
            'probe.own.run = ["/bin/own", "{options.v}"]\n'
            'source = { subsystem = "npu" }\noptions.v = { about = "v", type = "text", default = "1" }\n'
            'let = { model = { probe = "own", field = "m", type = "int", else = 7 } }\n'
            '[health]\na.probe = "own"\nb = { probe = "all", trip = "2 looks" }\n',
            "resources.d/a.toml": '[[resource]]\nclass = "npu"\noptions.v = "2"\nprobe.own.timeout = "5s"\n',
        }
    )
    assert found.findings == ()
    (spec,) = found.resources
    own, whole = ProbeSpec("own", ("/bin/own", "2"), 5), ProbeSpec("all", ("/bin/all", "-x"), 30)
    assert [check.criterion for check in spec.checks] == [ProbeTemplate(own), ProbeTemplate(whole)]
    assert spec.derived_words["model"] == DefaultedWord(ProbeWord(own, "m", ValueType.INT), 7)


def test_a_probe_of_a_joined_class_has_the_option_values_of_its_own_class(configure):
    """The entry has an option and a probe with the same names."""
    found = configure(
        {
            "classes/board.toml": 'about = "x"\nid = "{path_id}"\nsource = { subsystem = "board" }\n'
            'options.v = { about = "v", type = "text", default = "of the board" }\n'
            'options.w = { about = "w", type = "text", default = "only of the board" }\n'
            'probe.p.run = ["/bin/p", "{options.v}", "{options.w}"]\nlet.model = { probe = "p", field = "m" }\n',
            "classes/part.toml": 'about = "x"\nid = "{path_id}"\nsource = { subsystem = "part" }\n'
            'options.v = { about = "v", type = "text", default = "of the part" }\n'
            'probe.p.run = ["/bin/p", "{options.v}"]\nlet.own = { probe = "p", field = "m" }\n'
            'join.board = { class = "board", on = { path_id = "path_id" } }\n'
            'match = { board.model = "x", own = "x" }\n',
            "resources.d/a.toml": '[[resource]]\nname = "example.com/part"\nclass = "part"\n'
            'options.v = "of the entry"\n',
        }
    )
    assert found.findings == ()
    (spec,) = found.resources
    (join,) = spec.joins
    assert join.pool.derived_words["model"].probe.argv == ("/bin/p", "of the board", "only of the board")
    assert spec.derived_words["own"].probe.argv == ("/bin/p", "of the entry")


@pytest.mark.parametrize(
    ("said", "marked", "code"),
    [
        ("probe.a = 1", "1", "type"),
        ("[probe.a]", "a", "missing"),
        ("[probe.a]\nrun = 'x'", "'x'", "type"),
        ("[probe.a]\nrun = []", "[]", "type"),
        ("[probe.a]\nrun = ['x']", "x", "path"),
        ("[probe.a]\nrun = ['/x']\ntimeout = '0s'", "'0s'", "type"),
        ("[probe.a]\nrun = ['/x']\ntimeouts = '1s'", "timeouts", "unknown-key"),
    ],
)
def test_one_mistake_in_agent_toml(configure, said, marked, code):
    (finding,) = configure({"agent.toml": f"{said}\n"}).findings
    assert (finding.file, finding.code, marked_by(finding)) == ("agent.toml", code, marked)


MISTAKES = [
    ("health.a.holds = { drive = 'x' }", "drive", "unknown-word", "nearest: driver"),
    ("health.a.holds = { driver = 1 }", "1", "type", ""),
    ("health.a.holds = {}", "holds", "type", "remove it, or write a test"),
    ("health.a = {}", "a", "missing", "write holds = { WORD = … }"),
    ("health.a = { trip = 1 }", "a", "missing", "write holds = { WORD = … }"),
    ("health.vfio = { trip = 1 }", "vfio", "missing", "write holds = { WORD = … }"),
    ("health.a = { hold.driver = 'x' }", "hold", "unknown-key", "nearest: holds"),
    ("health.a = { holds.driver = 'x', trip = 2 }", "2", "type", 'write "2 looks"'),
    ("health.a = { holds.driver = 'x', trip = '2' }", "'2'", "type", 'write for example "2 looks"'),
    (
        "health.a = { holds.driver = 'x', trip = '3 in 10m' }",
        "'3 in 10m'",
        "type",
        'write looks ("2 looks") or a time ("10s")',
    ),
    ("health.a = { holds.driver = 'x', recover = 'later' }", "'later'", "type", 'write for example "30s"'),
    ("health.a = { holds.driver = 'x', every = 5 }", "5", "type", 'write for example "5s"'),
    ("health.a = { holds.driver = 'x', every = '1ms' }", "'1ms'", "type", 'write for example "5s"'),
    ("health.a = { holds.driver = 'x', on_unknown = 'ill' }", "'ill'", "type", 'write "unhealthy"'),
    ("health.a = { holds.driver = 'x', latch = 'yes' }", "'yes'", "type", ""),
    ("health.a = { holds.driver = 'x', latch = { driver = 'y' } }", "latch", "type", "latch = true, or recover"),
    (
        "health.a = { holds.driver = 'x', latch = true, recover = '1s' }",
        "'1s'",
        "type",
        'remove latch; recover = "never" has the same effect',
    ),
    ("health.a = { holds.driver = 'x', reason = 'it is {drive}' }", "drive", "unknown-word", "nearest: driver"),
    ("health.a = { holds.driver = 'x', reason = '' }", "''", "type", 'write "…"'),
    ("health.a = { holds.driver = 'x', reason = 'share {share}' }", "share", "unknown-word", ""),
    ("health.a = { holds.driver = 'x', when.drive = 'y' }", "drive", "unknown-word", "nearest: driver"),
    ("health.a = { holds.driver = 'x', timeout = '1s' }", "timeout", "type", "timeout goes with run, socket"),
    ("health.a = { holds.driver = 'x', only.driver = 'y' }", "only", "type", "write the test in holds"),
    ("health.a = { rises = 'numa', ignore.driver = 'y' }", "ignore", "type", "write the test in holds"),
    ("health.a = { rises = 'driver' }", "driver", "type", "write let.count = "),
    ("health.a = { rises = './errors' }", "./errors", "type", 'write let.count = { read = "./errors", type = "int" }'),
    ("health.a = { rises = 'nodes' }", "nodes", "type", ""),
    ("health.a = { rises = 'nuna' }", "nuna", "unknown-word", "nearest: numa"),
    ("health.a = { rises = 'numa', trip = '2000 in 1h' }", "'2000 in 1h'", "type", 'write "1000 in 1h"'),
    ("health.a = { log = '' }", "''", "type", ""),
    ("health.a = { log = '*' }", "'*'", "text", "write the first words of the line"),
    ("health.a = { log = 'x {' }", "{", "text", 'a literal brace is "{{"'),
    ("health.a = { log = 'x }' }", "}", "text", 'a literal brace is "}}"'),
    ("health.a = { log = 'x {}' }", "{}", "text", "write {word} to compare"),
    ("health.a = { log = 'x {driver|lower}' }", "{driver|lower}", "text", "write {word} to compare"),
    ("health.a = { log = 'x {drive}' }", "drive", "unknown-word", "nearest: driver"),
    ("health.a = { log = 'x {nodes}' }", "nodes", "type", ""),
    ("health.a = { log = 'x {node}' }", "node", "type", ""),
    ("health.a = { log = 'x {y:number}' }", "{y:number}", "type", "write {y:text}"),
    ("health.a = { log = 'x {y.z:int}' }", "{y.z:int}", "type", "write {y_z:int}"),
    ("health.a = { log = 'x {y:int} {y:int}' }", "{y:int}", "taken", "use another name"),
    ("health.a = { log = 'x {driver:text}' }", "{driver:text}", "taken", "write {driver} to compare, or"),
    ("health.a = { log = 'x {y:int}', ignore.why = 1 }", "why", "unknown-word", "take it there: {why:text}"),
    ("health.a = { log = 'x {code:int}', only.cod = 1 }", "cod", "unknown-word", "nearest: code"),
    ("health.a = { log = 'x {y:int}', only.driver = 'y' }", "driver", "unknown-word", "take it there: {driver:text}"),
    ("health.a = { log = 'x {y:int}', latch.y = 'a' }", "'a'", "type", ""),
    ("health.a = { log = 'x {y:int}', only = {} }", "only", "type", "remove it"),
    ("health.a = { log = 'x {y:int}', when.y = 1 }", "y", "unknown-word", ""),
    ("health.a = { log = 'x {y:int}', reason = 'it is {z}' }", "z", "unknown-word", ""),
    ("health.a = { log = 'x {y:int}', every = '5s' }", "'5s'", "type", "remove every"),
    ("health.a = { log = 'x {y:int}', trip = '2 looks' }", "'2 looks'", "type", "write events in a window"),
    ("health.a = { log = 'x {y:int}', trip = '2s' }", "'2s'", "type", "write events in a window"),
    ("health.a = { log = 'x {y:int}', trip = '2000 in 1h' }", "'2000 in 1h'", "type", 'write "1000 in 1h"'),
    ("health.a = { log = 'x {y:int}', recover = '2 looks' }", "'2 looks'", "type", 'write a time ("10m")'),
    ("health.a = { log = 'x {y:int}', latch = true, recover = '1s' }", "'1s'", "type", "remove latch"),
    ("health.a.run = '/bin/x'", "'/bin/x'", "type", 'write ["/usr/bin/…", "…"]'),
    ("health.a.run = []", "[]", "type", 'write ["/usr/bin/…", "…"]'),
    ("health.a.run = ['/bin/x', 1]", "['/bin/x', 1]", "type", 'write ["/usr/bin/…", "…"]'),
    ("health.a.run = ['x', '{node}']", "x", "path", 'write for example "/usr/bin/x"'),
    ("health.a.run = ['/bin/../x']", "/bin/../x", "path", 'write "/x"'),
    ("health.a.run = ['{node}']", "{node}", "path", 'write for example "/usr/bin/…"'),
    ("health.a.run = ['/bin/x', '{drive}']", "drive", "unknown-word", "nearest: driver"),
    ("health.a.run = ['/bin/x', '{id}']", "id", "unknown-word", ""),
    ("health.a = { run = ['/bin/x'], timeout = 2 }", "2", "type", 'write for example "5s"'),
    ("health.a = { run = ['/bin/x'], timeout = '0s' }", "'0s'", "type", 'write for example "2s"'),
    ("health.a = { run = ['/bin/x'], every = '1ms' }", "'1ms'", "type", 'write for example "5s"'),
    ("health.a = { run = ['/bin/x'], holds.driver = 'x' }", "holds", "type", ""),
    ("health.a = { run = ['/bin/x'], ignore.driver = 'x' }", "ignore", "type", "write the test in holds"),
    (
        "health.a = { run = ['/bin/x'], trip = '3 in 10m' }",
        "'3 in 10m'",
        "type",
        'write looks ("2 looks") or a time ("10s")',
    ),
    ("health.a = { run = ['/x'], of = '{name}' }", "of", "type", "of goes with socket"),
    ("health.a = { holds.driver = 'x', speaks = 'grpc-health' }", "speaks", "type", "speaks goes with"),
    ("health.a = { socket = '/x', speaks = 'grpc' }", "'grpc'", "type", 'write "grpc-health"'),
    ("health.a = { socket = '/x', speaks = 'amd-metrics' }", "amd-metrics", "missing", "write for example of = "),
    ("health.a = { socket = '/x', of = '{names}' }", "names", "unknown-word", ""),
    ("let.l = { names_of = './p*' }\nhealth.a = { socket = '/x', of = '{l}' }", "{l}", "type", ""),
    ("health.a.socket = 'x'", "x", "path", 'write "/x"'),
    ("health.a.socket = '/run/{names}'", "names", "unknown-word", ""),
    ("health.a.socket = '/run/{nodes}'", "{nodes}", "path", ""),
    ("let.l = { names_of = './p*' }\nhealth.a.socket = '/run/{l}'", "/run/{l}", "type", ""),
    ("health.a = { socket = '/x', timeout = '0s' }", "'0s'", "type", 'write for example "2s"'),
    ("health.a = { probe = 'x' }", "x", "unknown-probe", 'write [probe.x] with run = ["/usr/bin/…"]'),
    ("probe.ab.run = ['/x']\nhealth.a.probe = 'ac'", "ac", "unknown-probe", "nearest: ab"),
    ("probe.p.run = ['/x']\nhealth.a = { probe = 'p', every = '5s' }", "every", "type", "remove every"),
    (
        "probe.p.run = ['/x']\nhealth.a = { probe = 'p', timeout = '5s' }",
        "timeout",
        "type",
        "timeout goes with run, socket",
    ),
    ("probe.p = {}", "p", "missing", 'write run = ["/usr/bin/…"]'),
    ("probe.p.run = ['x']", "x", "path", 'write for example "/usr/bin/x"'),
    ("probe.p.run = ['/x', '{driver}']", "{driver}", "unknown-word", "write options.NAME, or take it out"),
    ("probe.p = { run = ['/x'], timeout = '0s' }", "'0s'", "type", 'write for example "30s"'),
    ("probe.p = { run = ['/x'], every = '1s' }", "every", "unknown-key", ""),
    ("let.a = { probe = 'p', field = 'f' }", "p", "unknown-probe", 'write [probe.p] with run = ["/usr/bin/…"]'),
    ("probe.p.run = ['/x']\nlet.a.probe = 'p'", "a", "missing", 'write field = "…"'),
    ("probe.p.run = ['/x']\nlet.a = { probe = 'p', field = 'f', of = 'x' }", "of", "type", "of goes with"),
]


@pytest.mark.parametrize(("said", "marked", "code", "write"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_one_mistake(configure, said, marked, code, write):
    (finding,) = configure({"resources.d/a.toml": f"{HEAD}{said}\n"}).findings
    *_, line = said.splitlines()
    assert (finding.file, finding.line, finding.code) == ("resources.d/a.toml", 4 + len(said.splitlines()), code)
    assert (finding.source_line, marked_by(finding)) == (line, marked)
    assert finding.write.startswith(write)
    assert finding.message


def test_looks_by_chance(configure):
    lines = "health.a = { holds.driver = 'x', trip = '2 looks' }\naccept = { looks-by-chance = 'known' }\n"
    assert checks(configure, lines)
    (finding,) = configure({"resources.d/a.toml": HEAD + lines.splitlines()[0]}).findings
    assert (finding.severity.value, finding.code, finding.column) == ("warning", "looks-by-chance", 41)


def test_what_is_not_said_of_the_kernel_log(configure):
    (check,) = checks(configure, 'health.a.log = "npu {path_id}: gone, {{{code:int}}}"')
    assert (check.interval, check.failure_threshold, check.recovery_threshold) == (None, ONE_LOOK, None)
    assert (check.log.event_rate, check.log.recovery_s, check.log.latch) == (ONE_EVENT, None, False)
    assert check.log.include_clause is check.log.ignore_clause is None
    assert check.log.match_line("npu platform-a: gone, {-5} times") == LogMatch(("platform-a",), (("code", -5),), False)
    assert check.log.match_line("npu platform-a: gone, -5") is None


def test_what_is_said_of_the_kernel_log(configure):
    lines = """[resource.health.a]
log = "npu {path_id}: {code:hex} {why:text}"
only = { code = ["1f", "2"] }
ignore.either.a.why.like = "harmless*"
latch = { code = "2" }
trip = "3 in 10m"
recover = "1h"
on_unknown = "healthy"
reason = "it says {code} of {driver}: {why|upper}"
"""
    (check,) = checks(configure, lines)
    log = check.log
    assert (log.event_rate, log.recovery_s, check.on_unknown) == (EventRate(3, 600), 3600, OnUnknown.HEALTHY)
    assert log.match_line("npu a: 0x1f broken") == LogMatch(("a",), (("code", "1f"), ("why", "broken")), False)
    assert log.match_line("npu a: 0x02 x").is_latching
    assert log.match_line("npu a: 3 broken") is log.match_line("npu a: 2 harmless!") is None
    assert [slot.word for slot in check.reason.slots] == ["code", "driver", "why"]


def test_entries_that_hear_the_same_listen_once(configure):
    found = configure(
        {
            "classes/npu.toml": 'about = "x"\nid = "{path_id}"\nsource = { subsystem = "npu" }\n'
            'health.a = { log = "npu {path_id}: {code:int}", only = { code = 7 } }\n',
            "resources.d/a.toml": '[[resource]]\nclass = "npu"\nname = "example.com/a"\nmatch.driver = "x"\n'
            '[[resource]]\nclass = "npu"\nname = "example.com/b"\nhealth.a.reason = "it is ill"\n',
        }
    )
    assert found.findings == ()
    assert len({check.log for spec in found.resources for check in spec.checks}) == 1


@pytest.mark.parametrize("pattern", ["* broke {path_id}", "{who:text}: broke"])
def test_what_may_stand_anywhere_in_a_line(configure, pattern):
    lines = f"health.a = {{ log = '{pattern}' }}\naccept = {{ log-anywhere = 'known' }}\n"
    assert checks(configure, lines)
    (finding,) = configure({"resources.d/a.toml": HEAD + lines.splitlines()[0]}).findings
    assert (finding.severity.value, finding.code, finding.column) == ("warning", "log-anywhere", 21)


def test_a_counter(configure):
    (check,) = checks(
        configure,
        'let.errors = { read = "./errors", type = "int" }\nhealth.a = { rises = "errors", every = "5s",'
        ' trip = "3 in 10m", recover = "1h" }',
    )
    assert (check.criterion, check.failure_threshold, check.recovery_threshold, check.interval) == (
        CounterCheck("errors"),
        EventRate(3, 600),
        LookDuration(3600),
        5,
    )
    (check,) = checks(configure, 'health.a.rises = "numa"')
    assert (check.criterion, check.failure_threshold, check.recovery_threshold) == (
        CounterCheck("numa"),
        ONE_LOOK,
        None,
    )


GPU = """about = "x"
source = "pci"
gate.driver."/proc/driver" = { exists = true }
wait.firmware."./loading" = { exists = true }
health.link.holds = { driver = "x" }
health.vfio.trip = "2s"
give.vfio = true
"""
JOIN = 'join.gpu = { class = "gpu", on = { address = "pci.address" } }\n'


def compile_joined_check(configure, lines, gpu=GPU):
    return configure({"classes/gpu.toml": gpu, "resources.d/a.toml": HEAD + JOIN + lines + "\n"})


def test_the_health_of_a_class_that_is_joined(configure):
    lines = "health.gpu = { holds.gpu.healthy = true, reason = 'its GPU: {gpu.reason}' }\nhealth.own.holds.driver = 'x'"
    found = compile_joined_check(configure, lines)
    assert found.is_valid, found.findings
    (spec,) = found.resources
    assert [check.partner_joins for check in spec.checks] == [("gpu",), ()]
    (join,) = spec.joins
    assert join.pool.partner_checks.name == "gpu"
    assert [check.name for check in join.pool.partner_checks.checks] == ["link"]
    assert [clause.name for clause in (*join.pool.partner_checks.wait, *join.pool.partner_checks.gate)] == [
        "wait.firmware",
        "gate.driver",
    ]
    assert list(join.list_partner_checks()) == [join.pool.partner_checks]


def test_nobody_asks_of_the_health_of_which_nobody_speaks(configure):
    (spec,) = compile_joined_check(configure, "health.own.holds.gpu.driver = 'x'").resources
    assert spec.joins[0].pool.partner_checks is None
    (spec,) = compile_joined_check(configure, "health.own = { holds.driver = 'x', reason = '{gpu.reason}' }").resources
    assert spec.joins[0].pool.partner_checks is not None


@pytest.mark.parametrize(
    ("said", "marked", "code"),
    [
        ("match.gpu.healthy = true", "healthy", "unknown-word"),
        ("exclude.a.gpu.healthy = false", "healthy", "unknown-word"),
        ("let.a = { by = 'gpu.healthy', map = { true = '1' } }", "gpu.healthy", "unknown-word"),
        ("prestart.a = { run = ['/bin/x'], when.gpu.healthy = true }", "healthy", "unknown-word"),
        ("give.env.A = { value = '{gpu.reason}', join = ',' }", "gpu.reason", "unknown-word"),
        ("health.a.run = ['/bin/x', '{gpu.reason}']", "gpu.reason", "unknown-word"),
        ("health.a.socket = '/run/{gpu.reason}'", "gpu.reason", "unknown-word"),
        ("health.a.log = 'x {gpu.reason}: {code:int}'", "gpu.reason", "unknown-word"),
        ("let.a = { holds.gpu.healthy = true }", "healthy", "unknown-word"),
        ("health.a.holds.gpu.healthy = 'yes'", "'yes'", "type"),
        ("health.a.holds.gpu.health = true", "health", "unknown-word"),
    ],
)
def test_where_health_is_not_known(configure, said, marked, code):
    (finding,) = [
        finding for finding in compile_joined_check(configure, said).findings if finding.severity.value == "error"
    ]
    assert (finding.file, finding.line, finding.code) == ("resources.d/a.toml", 6, code)
    assert marked_by(finding) == marked


def test_a_source_that_is_joined_has_no_health(configure):
    lines = 'join.gpu = { source = "pci", on = { address = "pci.address" } }\nhealth.a.holds.gpu.healthy = true\n'
    (finding,) = configure({"resources.d/a.toml": HEAD + lines}).findings
    assert (finding.line, finding.code) == (6, "unknown-word")


def test_one_check_speaks_of_as_many_as_it_likes(configure):
    joins = "".join(JOIN.replace("join.gpu", f"join.g{number}") for number in range(4))
    lines = "health.a.holds = { " + ", ".join(f"g{number}.healthy = true" for number in range(4)) + " }\n"
    (spec,) = configure({"classes/gpu.toml": GPU, "resources.d/a.toml": HEAD + joins + lines}).resources
    assert [check.partner_joins for check in spec.checks] == [("g0", "g1", "g2", "g3")]


def test_who_waits_for_a_partner_to_be_well(configure):
    lines = "wait.ill = { gpu.healthy = false, driver = 'x' }\nwait.own.driver = 'y'"
    found = compile_joined_check(configure, lines)
    assert found.is_valid, found.findings
    (spec,) = found.resources
    assert [clause.name for clause in spec.wait] == ["wait.own"]
    assert [(hinge.clause.name, hinge.partner_joins) for hinge in spec.partner_conditions] == [("wait.ill", ("gpu",))]
    assert spec.joins[0].pool.partner_checks is not None
    (spec,) = compile_joined_check(configure, "wait.a.either = { x.gpu.reason = '*79*', y.driver = 'z' }").resources
    assert [hinge.partner_joins for hinge in spec.partner_conditions] == [("gpu",)]


def test_what_a_class_waits_for_of_its_own_partner(configure):
    gpu = GPU + 'join.card = { class = "card", on = { address = "address" } }\nwait.card.card.healthy = false\n'
    card = 'about = "x"\nsource = "pci"\nhealth.link.holds = { driver = "x" }\n'
    files = {"classes/gpu.toml": gpu, "classes/card.toml": card}
    found = configure({**files, "resources.d/a.toml": HEAD + JOIN + "wait.gpu.gpu.healthy = false\n"})
    assert found.is_valid, found.findings
    (join,) = found.resources[0].joins
    assert [hinge.partner_joins for hinge in join.pool.partner_checks.partner_conditions] == [("card",)]
    assert [one.name for one in join.list_partner_checks()] == ["gpu", "card"]


@pytest.mark.parametrize(
    "lines",
    [
        "give.env.WELL = { value = 'yes', join = ',', when.gpu.healthy = true }",
        "give.also.ill = { when.gpu.reason = '*79*', env.ILL = { value = 'yes', join = ',' } }",
        "give.also.ill.when.either = { a.gpu.healthy = true, b.driver = 'x' }\ngive.also.ill.nodes.n = '/dev/n'",
    ],
)
def test_what_is_given_by_the_health_of_a_partner(configure, lines):
    found = compile_joined_check(configure, lines)
    assert found.is_valid, found.findings
    (spec,) = found.resources
    assert spec.partner_joins == ("gpu",)
    assert spec.joins[0].pool.partner_checks is not None
    assert spec.find_give_words() & {"gpu.healthy", "gpu.reason"}


def test_a_spec_of_our_own_says_nothing_that_hangs_on_the_health_of_a_partner(configure):
    lines = "give.via = 'cdi'\ngive.env = { A = { value = 'a', when.gpu.healthy = true }, B = 'b' }\n"
    (spec,) = compile_joined_check(configure, lines).resources
    assert {one.key: one.in_spec for one in spec.env} == {"A": False, "B": True}


def test_vfio_by_the_health_of_a_partner_is_checked_by_it(configure):
    lines = "source = 'pci'\nid = '{address}'\njoin.gpu = { class = 'gpu', on = { address = 'address' } }\n"
    text = f"[[resource]]\nname = 'example.com/a'\n{lines}give.vfio.when.gpu.healthy = true\n"
    for more in ("", "health.vfio.trip = '2s'\n"):
        (spec,) = configure({"classes/gpu.toml": GPU, "resources.d/a.toml": text + more}).resources
        assert [(check.name, check.partner_joins) for check in spec.checks] == [("vfio", ("gpu",))]


def test_health_in_a_circle(configure):
    text = HEAD + 'join.b = { resource = "example.com/b" }\nhealth.b.holds.b.healthy = true\n'
    other = text.replace("example.com/b", "example.com/x").replace(
        'name = "example.com/x"', 'name = "example.com/b"', 1
    )
    found = configure({"resources.d/a.toml": text + "\n" + other})
    assert any(finding.code == "cycle" for finding in found.findings)


@pytest.mark.parametrize("word", ["members.gpu.healthy", "kit.gpu.healthy"])
def test_health_is_asked_of_the_first_ones_partner(configure, word):
    group = "group = { by = 'path_id', parts.kit.driver = 'x' }\n"
    found = compile_joined_check(configure, f"{group}health.a.holds = {{ {word} = true }}")
    (finding,) = [finding for finding in found.findings if finding.severity.value == "error"]
    assert (finding.code, finding.write) == ("unknown-word", "write gpu.healthy")
