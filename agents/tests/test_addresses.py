"""Which targets are refused, by literal, by name, by redirect and by a name that changes its mind."""

import itertools
import json
import socket
import threading
from ipaddress import ip_address

import pytest

from conftest import Job
from services import Bucket, Site
from thane_agents.addresses import kind, parse_allowed, why_refused
from thane_agents.errors import PageFailure, Refusal
from thane_agents.web import Web

ADDRESSES = [
    ("8.8.8.8", None),
    ("2606:4700:4700::1111", None),
    ("127.0.0.1", "loopback"),
    ("127.9.9.9", "loopback"),
    ("::1", "loopback"),
    ("::ffff:127.0.0.1", "loopback"),
    ("10.0.0.1", "private"),
    ("172.16.5.4", "private"),
    ("192.168.1.1", "private"),
    ("fd12::1", "private"),
    ("169.254.1.1", "link-local"),
    ("fe80::1", "link-local"),
    ("169.254.169.254", "a metadata service"),
    ("::ffff:169.254.169.254", "a metadata service"),
    ("64:ff9b::a9fe:a9fe", "a metadata service"),
    ("2002:a9fe:a9fe::", "a metadata service"),
    ("fd00:ec2::254", "a metadata service"),
    ("100.100.100.200", "a metadata service"),
    ("100.64.0.1", "reserved"),
    ("0.0.0.0", "unspecified"),
    ("::", "unspecified"),
    ("224.0.0.1", "multicast"),
    ("ff02::1", "multicast"),
    ("255.255.255.255", "private"),
    ("240.0.0.1", "private"),
    ("2002:0a00:0001::", "private"),
]


@pytest.mark.parametrize(("address", "expected"), ADDRESSES)
def test_kinds_of_addresses(address: str, expected: str | None) -> None:
    assert kind(ip_address(address)) == expected


@pytest.mark.parametrize(
    ("entry", "address", "port", "allowed"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, True),
        ("127.0.0.1:8080", "127.0.0.1", 8081, False),
        ("127.0.0.1:8080", "127.0.0.2", 8080, False),
        ("127.0.0.0/8", "127.3.2.1", 1, True),
        ("[::1]:80", "::1", 80, True),
        ("::1", "::1", 81, True),
        ("10.0.0.0/8", "::ffff:10.1.1.1", 80, True),
        ("0.0.0.0/0", "169.254.169.254", 80, False),
        ("169.254.169.254/32", "169.254.169.254", 80, False),
    ],
)
def test_what_a_list_allows(entry: str, address: str, port: int, allowed: bool) -> None:
    assert (why_refused(ip_address(address), port, (parse_allowed(entry),)) is None) == allowed


@pytest.mark.parametrize("entry", ["", "localhost", "10.0.0.0/99", "127.0.0.1:0", "127.0.0.1:http", "10.0.0.1/8"])
def test_entries_of_the_list_that_mean_nothing(entry: str) -> None:
    with pytest.raises(Refusal, match="is no address"):
        parse_allowed(entry)


TARGETS = [
    ("http://169.254.169.254/latest/meta-data/", "metadata"),
    ("http://[::ffff:a9fe:a9fe]/", "metadata"),
    ("http://127.0.0.1/", "loopback"),
    ("http://2130706433/", "loopback"),
    ("http://0x7f.1/", "loopback"),
    ("http://127.1/", "loopback"),
    ("http://localhost/", "loopback"),
    ("http://10.2.3.4/", "private"),
    ("file:///etc/passwd", "scheme 'file'"),
    ("gopher://example.com/", "scheme 'gopher'"),
    ("ftp://example.com/", "scheme 'ftp'"),
    ("javascript:alert(1)", "scheme 'javascript'"),
    ("data:text/html,hello", "scheme 'data'"),
    ("example.com", "scheme ''"),
    ("http://", "has no host"),
    ("http://user:password@example.com/", "credentials"),
    ("http://example.com:99999/", "port 99999, which does not exist"),
    ("http://exa\x00mple.com/", "no URL"),
    ("http://example.com/" + "a" * 2048, "longer than 2048"),
    ("", "scheme ''"),
]


@pytest.fixture
def web() -> Web:
    return Web((), timeout=5, max_bytes=1000)


@pytest.mark.parametrize(("url", "reason"), TARGETS)
def test_targets_that_are_refused(web: Web, url: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        web.admit(url)
    with pytest.raises(PageFailure, match=reason):
        web.fetch(url)


def test_a_name_that_changes_its_mind(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["93.184.215.14", "127.0.0.1"])

    def resolve(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    web.admit("http://rebinding.test/")
    with pytest.raises(PageFailure, match=r"rebinding.test is refused: 127.0.0.1 is loopback"):
        web.fetch("http://rebinding.test/")


def test_one_bad_address_among_several_refuses_all(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in ("93.184.215.14", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(Refusal, match=r"10\.0\.0\.1 is private"):
        web.admit("http://both.test/")


def test_the_address_that_was_checked_is_the_one_connected_to(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = socket.getaddrinfo, []

    def resolve(host: str, port: int, *rest: object, **options: object) -> object:
        if host == "pinned.test":
            asked.append(host)
            return real("127.0.0.1" if len(asked) == 1 else "192.0.2.1", port, *rest, **options)
        return real(host, port, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    web = Web((parse_allowed(f"127.0.0.1:{site.port}"),), timeout=5, max_bytes=1 << 20)
    assert "Harbours one" in web.fetch(f"http://pinned.test:{site.port}/one").text
    assert asked == ["pinned.test"]


def test_redirects_are_checked_each(site: Site) -> None:
    web = Web((parse_allowed(f"127.0.0.1:{site.port}"),), timeout=5, max_bytes=1 << 20)
    site.page("/first", "", 302, location="/second")
    site.page("/second", "", 307, location="http://169.254.169.254/latest")
    with pytest.raises(PageFailure, match="metadata"):
        web.fetch(f"{site.url}/first")
    site.page("/file", "", 302, location="file:///etc/passwd")
    with pytest.raises(PageFailure, match="scheme 'file'"):
        web.fetch(f"{site.url}/file")
    site.page("/loop", "", 302, location="/loop")
    with pytest.raises(PageFailure, match="more than 5 redirects"):
        web.fetch(f"{site.url}/loop")
    site.page("/fine", "", 301, location="/one")
    assert web.fetch(f"{site.url}/fine").url == f"{site.url}/one"


def test_a_page_is_cut_off(site: Site) -> None:
    web = Web((parse_allowed(f"127.0.0.1:{site.port}"),), timeout=5, max_bytes=1000)
    site.page("/long", "x" * 5000)
    answer = web.fetch(f"{site.url}/long")
    assert answer.truncated and len(answer.body) == 1000


def test_a_page_that_comes_byte_by_byte_is_given_up() -> None:
    """Each byte comes in time, all of them do not."""
    server = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()
    bytes_sent = itertools.chain((b"%c" % byte for byte in b"HTTP/1.1 200 OK\r\nx: "), itertools.repeat(b"x"))

    def drip() -> None:
        client, _ = server.accept()
        with client:
            try:
                while not ended.wait(0.02):
                    client.sendall(next(bytes_sent))
            except OSError:
                pass

    thread = threading.Thread(target=drip)
    thread.start()
    port = server.getsockname()[1]
    slow = Web((parse_allowed("127.0.0.1"),), timeout=0.5, max_bytes=1000)
    try:
        with pytest.raises(PageFailure, match=r"took too long|timed out"):
            slow.fetch(f"http://127.0.0.1:{port}/")
    finally:
        ended.set()
        thread.join()
        server.close()


@pytest.mark.parametrize("agent", ["scraper", "screenshot", "dom"])
def test_one_forbidden_target_refuses_the_job_and_makes_nothing(job: Job, site: Site, bucket: Bucket, agent: str) -> None:
    targets = [f"{site.url}/one", "http://169.254.169.254/latest/meta-data/"]
    code, said = job.run(agent, TARGET_URLS=json.dumps(targets))
    assert code == 2
    assert "target 2 (http://169.254.169.254/latest/meta-data/): 169.254.169.254 is refused: 169.254.169.254 is a metadata service" in said
    assert not site.hits and not bucket.keys(f"job_{job.id}/")
