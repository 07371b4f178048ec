# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Parameters: what may be given, what is refused, and what help texts say then."""

import os
import re

import pytest

from runner.places import BUILD

pytestmark = pytest.mark.mpi

# Parameter, value, problem, and how what is expected begins: one of each form of value. Which texts
# are which problem is tested in tests/unit/test_param_values.c.
MICROSECONDS = "(microseconds, or with us, ms, s or min after it)"
BYTES = "(bytes, or with k, M, G or KiB, MiB, GiB after it)"
UNIT = "what follows the number is none of its units"
NAME = "a name in which %h, %r, %j, %p"
BAD = [
    ("ack_delay", "abc", "it is no number", f"0 to 10000 {MICROSECONDS}"),
    ("exclusivity", "", "it is empty", "0 to 65536 (rank)"),
    ("silence_limit", "500ms", "it is no whole number of seconds", "0 to 86400 (seconds, or with"),
    ("depth_peer", "64k", "something follows the number", "2 to 65536 (segments)"),
    ("port_min", "08000", "it begins with 0, which may be meant as octal", "0 to 65535 (port)"),
    ("gid_index", "-2", "it is too small", "-1 to 255 (place)"),
    ("socket_buffer", "4MB", UNIT, f"0 to 1073741824 {BYTES}"),
    ("get_limit", "0", "it is too small", "4096 to 18446744073709551615 (bytes"),
    ("mtu", "255", "it is too small", "0, or 256 to 65535 (bytes"),
    ("stats", "maybe", "it is none of these",
     "0, f, false, n, no, disabled, 1, t, true, y, yes or enabled, or 2 to 86400 (seconds"),
    ("stats_file", "a%d", "what follows a % is none of these", NAME),
    ("trace", "a%", "what follows a % is none of these", NAME),
    ("connectivity_map", "x%", "what follows a % is none of these", NAME),
    ("progress", "thread", "it is none of these", "one of serve, polling, deliver"),
    ("bulk_lane", "", "it is empty", "0, f, false"),
    ("flags", "nosuch", "an entry is none of these",
     "send, and some of inplace, put, get, atomics, fetching-atomics, rdma-flush"),
    ("flags", "put,get", "send is missing", "send, and some of inplace"),
    ("transport", "tcp", "it is none of these", "one of auto,"),
    ("send_depth", "64,16385", "it is too large", "0 to 16384 (sends), or up to 16 of these"),
    ("channels", "two", "it is none of these", "one of auto, own, shared"),
    ("max_pinned", "101%", "it is too large",
     f"0 to 18446744073709551615 {BYTES}, or 0% to 100%, or 0.0 to 1.0, or a fraction as 2/3"),
    ("max_pinned", "half", "it is no number", "0 to 18446744073709551615 (bytes"),
    ("memory_max", "-1", "it is too small", "0 to 18446744073709551615 (bytes"),
]
# Parameter, value, and what it means.
GOOD = [
    "rto_max 3000ms 3000000",
    "silence_limit 5min 300",
    "progress_thread_ms 10s 10000",
    "latency 20us 20",
    "copy_limit 64KiB 65536",
    "depth_bytes 16G 17179869184",
    "get_limit 8GiB 8589934592",
    "pkey 0x8001 32769",
    "gid_index -1 -1",
    "max_pinned 8GiB 8GiB",
]


def ompi_info(run, mpi, **parameters):
    return run.output(
        "ompi_info",
        "--parsable",
        "--param",
        "btl",
        "ib",
        "--level",
        "9",
        env={
            **mpi.environment,
            **{f"OMPI_MCA_btl_ib_{name}": value for name, value in parameters.items()},
        },
    )


@pytest.mark.quick
@pytest.mark.limit(30)
def test_parameter_helps(run, mpi):
    lines = ompi_info(run, mpi)
    assert lines.count(":value:") >= 15
    version = run.output(BUILD / "ib_info", "--version").split()[1]
    assert f'mca:btl:ib:version:"component:{version}"' in lines
    # Each help text ends in "(unit or choices, range, default: ...)", or says the same in other
    # words; but for those that Open MPI gives each BTL.
    names = set(re.findall(r"^mca:btl:ib:param:(btl_ib_\w+):value:", lines, re.M)) - {
        "btl_ib_accelerator_max_send_size",
        "btl_ib_get_alignment",
        "btl_ib_put_alignment",
    }
    told = set(
        re.findall(r"^mca:btl:ib:param:(btl_ib_\w+):help:.*\(.*[,;] default: .*\)", lines, re.M)
    )
    assert not names - told, "their help tells no unit, range or default"


@pytest.mark.limit(180)
def test_parameter_limits(run, mpi, request):
    """Every number that a help text says is possible is taken; of every fourth parameter, where a
    sample has to do."""
    ranges = re.findall(
        r"^mca:btl:ib:param:btl_ib_([a-z_]+):help:.*\([^(]*, (\d+) to (\d+), default: ",
        ompi_info(run, mpi),
        re.M,
    )
    assert len(ranges) > 20
    step = 4 if request.config.option.level == "default" else 1
    for name, least, most in ranges[::step]:
        for value in (least, most):
            output = mpi.alone(run, **{name: value})
            assert (
                "rail 0 is " in output or "contradict" in output
            ), f"{name}={value}: ib is not used"


def refused(output, name, value, where, problem, expected):
    """The help text, which names all there is to know; and the job goes on without ib."""
    assert "OK alltoall" in output
    assert "rail 0 is " not in output
    text = (
        f"The MCA parameter btl_ib_{name} has a value that cannot be used:\n\n"
        f'  Host:     {os.uname().nodename}\n  Value:    "{value}"\n  Set in:   '
    )
    assert text in output
    assert re.search(
        f"{re.escape(where)}[^\n]*\n  Problem:  {re.escape(problem)}\n"
        f"  Expected: {re.escape(expected)}.*"
        "\n  Default:  ",
        output[output.index(text) :],
        re.S,
    )


@pytest.mark.parametrize(
    "name, value, problem, expected",
    [
        pytest.param(
            *row,
            id=f"bad_values/{row[0]}={row[1]}".replace(" ", "_"),
            marks=[pytest.mark.quick] * (number % 10 == 0) + [pytest.mark.full] * (number % 3 != 0),
        )
        for number, row in enumerate(BAD)
    ],
)
def test_bad_values(run, mpi, name, value, problem, expected):
    """What a user gave and that is no such number, truth, flag or choice is refused."""
    refused(mpi.alone(run, **{name: value}), name, value, "environment", problem, expected)


@pytest.mark.called("bad_values/in-a-file")
def test_bad_values_in_a_file(run, mpi, tmp_path):
    for row in BAD[::4]:
        if row[1]:  # a file cannot say that there is nothing
            file = tmp_path / "parameters.conf"
            file.write_text(f"btl_ib_{row[0]} = {row[1]}\n")
            output = mpi.alone(run, env={"OMPI_MCA_mca_base_param_files": str(file)})
            refused(output, *row[:2], str(file), *row[2:])


@pytest.mark.called("bad_values/several")
def test_several_bad_values(run, mpi):
    """At once, and from mpirun's command line."""
    output = mpi.job(
        run,
        1,
        *("--mca", "btl", "ib,self", "--mca", "btl_ib_ack_delay", "x", "--mca", "btl_ib_cc", "y"),
        mpi.program("alltoall"),
        "rounds=1",
        ok=None,
    )
    assert re.search('btl_ib_ack_delay.*"x".*btl_ib_cc.*"y"', output, re.S)


def test_parameter_units(run, mpi):
    """Numbers with units mean what they say: to the component, to ompi_info, and to tools that ask
    by MPI_T, which see the type and no enumeration with items. A value of 3000ms is 3000 MiB to
    Open MPI, too large for an int: it must not say so."""
    for name, value, shown in map(str.split, GOOD):
        output = mpi.alone(run, ("cvars", f"name=btl_ib_{name}"), **{name: value})
        assert "rail 0 is " in output
        assert re.search(f"btl_ib_{name} .* = {shown}, 0 items", output)
        assert "nvalid" not in output
        output = ompi_info(run, mpi, **{name: value})
        assert f"btl_ib_{name}:value:{shown}\n" in output
        assert "nvalid" not in output


# A choice, one of its words that is not the default, and the place of that word.
CHOICES = [
    ("transport", "udp", None),
    ("wire", "rc", 2),
    ("locality", "ignore", 2),
    ("memory_ordering", "relaxed", 1),
    ("protection", "integrity", 2),
    ("atomics", "host", 2),
    ("cc", "cubic", 3),
    ("udp_gso", "0", 1),
]


def test_parameter_choices(run, mpi):
    """ompi_info and MPI_T list what a choice may be, which is what a bad value is told; and show
    which word it is."""
    lines = ompi_info(run, mpi)
    for name, word, place in CHOICES:
        listed = re.findall(rf"btl_ib_{name}:enumerator:value:\d:(\w+)\n", lines)
        assert word in listed
        output = mpi.alone(run, **{name: "nonsense"})
        assert re.search(rf"btl_ib_{name}.*Expected: one of {', '.join(listed)}\n", output, re.S)
        assert "nvalid" not in output
        place = listed.index(word) if place is None else place
        output = mpi.alone(run, ("cvars", f"name=btl_ib_{name}"), **{name: word})
        assert f"btl_ib_{name} int = {place}, {len(listed)} items" in output
        assert f"btl_ib_{name}:value:{word}\n" in ompi_info(run, mpi, **{name: word})


def test_parameter_levels(run, mpi):
    """What a user needs is at levels 1 to 3, and no more than fits a screen; helps do not begin
    with what another one said, and tell when to touch a parameter."""
    lines = ompi_info(run, mpi)
    levels = dict(re.findall(r"^mca:btl:ib:param:btl_ib_(\w+):level:(\d)$", lines, re.M))
    assert {name for name, level in levels.items() if int(level) <= 2} >= {
        *("if_include", "if_exclude", "port_min", "port_range", "stats", "stats_file", "auto")
    }
    assert 10 < len([name for name, level in levels.items() if int(level) <= 3]) <= 24
    helps = re.findall(r"^mca:btl:ib:param:(\w+):help:(.*)$", lines, re.M)
    assert len(helps) > 70
    riddles = r"(Transports? [\w, ]+: )?(The same|Then|It|They|The latter|These)\b"
    assert not [help for help in helps if re.match(riddles, help[1], re.I)]
    unsaid = {name for name, help in helps if not re.search(r"\b(Set|Raise|Lower|Change) it", help)}
    others = {f"btl_ib_{name}" for name in ("get_alignment", "put_alignment")}
    assert unsaid <= others


@pytest.mark.limit(120)
def test_queues_bad(run, mpi):
    """A bad receive_queues: a help text that names what was wrong, and a job that goes on without
    ib."""
    for queues in ("P,12abc,256", "X,128,256", "P,128,256:P,64,256", "P,104,256"):
        output = mpi.alone(run, receive_queues=queues)
        assert "receive_queues" in output
        assert "couldn't open the help file" not in output
        assert "couldn't find" not in output
    for queues in (
        "P,128,256,128,16:S,1024,256,128,32:S,4096,256,128,32:S,65536,256,128,32",
        "P,128,256,128,16:P,1024,32,16:P,4096,32,16:P,65536,32,16",
        "P,128,16,4",
    ):
        output = mpi.job(
            run,
            2,
            *("--mca", "btl", "ib,self", "--mca", "btl_ib_stats", "1"),
            *("--mca", "btl_ib_receive_queues", queues),
            mpi.program("ring"),
            "laps=1",
        )
        assert re.search(r"sent [1-9].* segments", output)


def test_queues_reduced(run, mpi):
    """A number that contradicts another of its queue, but stops nothing: it is reduced, and a help
    text says so."""
    for queues, queue, field, found, used in (
        ("P,256,8:S,4096,64,16,4,100,2", 2, "init", 100, "64: not more than num"),
        ("S,4096,64,16,4,8,9", 1, "limit", 9, "8: not more than init"),
    ):
        output = mpi.alone(run, receive_queues=queues)
        assert re.search(
            f'Value: "{queues}"\\s+Queue: {queue}\\s+Field: {field}\\s+Found: "{found}"'
            rf"\s+Used:  {used}\n",
            output,
        )
        assert "rail 0 is " in output


def test_queues_without_effect(run, mpi):
    """Numbers that have nothing to govern over the transport are told once, and nothing is said of
    others."""
    queues = "P,256,8:S,4096,64,16,4,8,2"
    output = mpi.alone(run, receive_queues=queues, transport="udp")
    assert re.search(
        rf"Transport: udp\s+Value:     {queues}\s+"
        r"No effect: queue 2: num, low_watermark, init, limit\n",
        output,
    )
    assert output.count("have nothing to govern") == 1
    output = mpi.alone(run, receive_queues="P,256,8,4,2,1:S,4096,64,16", transport="udp")
    assert "have nothing to govern" not in output
    assert "rail 0 is " in output


def test_queues_each_number(run, mpi):
    """What the numbers of a string govern over udp: segments wait for credits of the P queue and
    for max_pending_sends of the S queue, and all numbers are shown."""
    queues = "P,256,8,2,1,1:S,4096,64,16,4,8,2"
    output = mpi.job(
        run,
        2,
        *("--mca", "btl", "ib,self", "--mca", "btl_ib_transport", "udp"),
        *("--mca", "btl_ib_stats", "1", "--mca", "btl_base_verbose", "10"),
        *("--mca", "btl_ib_receive_queues", queues),
        mpi.program("randsize"),
        *("seed=3", "rounds=20"),
    )
    assert len(re.findall(r"queue 0: \d+ buffers for all peers, num 8, a new peer holds 8", output))
    assert f" queues {queues}\n" in output
    for rank in (0, 1):
        blocked = re.search(
            rf"rank {rank} host .*blocked \d+ \(.*credit (\d+), window (\d+)", output
        )
        assert int(blocked.group(1)) > 0 and int(blocked.group(2)) > 0


def disagreeing(run, mpi, first, second):
    """Two processes, of which the second has another setting, and no BTL that could carry what they
    say: they fail. What the first one says, or the second if that was quicker. Not by two programs
    with ':' between, at which mpirun of 5.0.7 crashes."""
    script = """
        setting=$1
        [ "$OMPI_COMM_WORLD_RANK" = 0 ] || setting=$2
        exec env "OMPI_MCA_btl_ib_$setting" "$3" laps=1"""
    return mpi.job(
        run,
        2,
        *("--mca", "btl", "ib,self"),
        "sh",
        "-c",
        script,
        "sh",
        first,
        second,
        mpi.program("ring"),
        ok=False,
    )


@pytest.mark.limit(120)
def test_protection_disagrees(run, mpi):
    """btl_ib_protection that differs is named by both."""
    host = re.escape(os.uname().nodename)
    none = f"rank [01] on host {host}: btl_ib_protection none\n"
    for value in ("crc32c", "integrity", "encrypt"):
        output = disagreeing(run, mpi, "protection=none", f"protection={value}")
        other = f": btl_ib_protection {value}\n"
        assert re.search(
            f"  This process:  {none}  Other process: rank [01] on host {host}{other}", output
        ) or re.search(f"{other}  Other process: {none}", output)


@pytest.mark.limit(120)
def test_parameters_disagree(run, mpi):
    """Processes that cannot use ib with each other say with which values, whose, and what the
    defaults are."""
    host = re.escape(os.uname().nodename)
    output = disagreeing(run, mpi, "max_send_size=300k", "max_send_size=393216")
    assert re.search(
        rf"""  This process:  rank [01] on host {host}
  Its limits:    btl_ib_eager_limit \d+, btl_ib_max_send_size (307200|393216) bytes;
                 the larger one, btl_ib_max_send_size, is what counts
  Other process: rank [01] on host {host}
  Its limits:    the larger of the two is (307200|393216) bytes
  Defaults:      btl_ib_max_send_size 65536, btl_ib_eager_limit
                 263168 over udp with GSO, """,
        output,
    )
    output = disagreeing(run, mpi, "eager_limit=350000", "eager_limit=360k")
    assert re.search(
        r"the larger one, btl_ib_eager_limit, is what counts.*"
        r"the larger of the two is (350000|368640) bytes",
        output,
        re.S,
    )
    if not mpi.has("OFI"):
        return
    output = disagreeing(run, mpi, "transport=udp", "transport=ofi")
    ours = rf"rank [01] on host {host}\n  Its devices:    (udp|ofi/[a-z]+) \("
    assert re.search(f"  This process:   {ours}", output)
    assert re.search(f"  Other process:  {ours}", output)
    assert "btl ib,tcp,self" in output
