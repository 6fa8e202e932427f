"""Which addresses a target may have: public ones, and those on an explicit list. Pure."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from .errors import Refusal

Address = IPv4Address | IPv6Address

# What clouds tell a machine about itself: never a target, on no list.
METADATA = (ip_address("169.254.169.254"), ip_address("169.254.170.2"), ip_address("100.100.100.200"), ip_address("fd00:ec2::254"))
NAT64 = ip_network("64:ff9b::/96")


@dataclass(frozen=True)
class Allowed:
    """A network that targets may be in although it is not public, on one port or on all."""

    network: IPv4Network | IPv6Network
    port: int | None

    def covers(self, address: Address, port: int) -> bool:
        return address.version == self.network.version and address in self.network and self.port in (None, port)


def parse_allowed(text: str) -> Allowed:
    """Reads `127.0.0.1:8080`, `10.1.0.0/16` or `[::1]:8080`."""
    network, port = text.strip(), None
    if network.startswith("["):
        network, _, rest = network[1:].partition("]")
        port = rest.removeprefix(":") or None
    elif network.count(":") == 1:
        network, _, port = network.partition(":")
    try:
        number = None if port is None else int(port)
        if number is not None and not 0 < number < 65536:
            raise ValueError("no such port")
        return Allowed(ip_network(network), number)
    except ValueError as error:
        raise Refusal(f"allowed target {text!r} is no address, network or address:port: {error}") from None


def embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def kind(address: Address) -> str | None:
    """Why an address is no public one; none if it is."""
    address = embedded(address)
    if address in METADATA:
        return "a metadata service"
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address.is_private:
        return "private"
    if address.is_reserved or not address.is_global:
        return "reserved"
    return None


def why_refused(address: Address, port: int, allowed: tuple[Allowed, ...]) -> str | None:
    """Why nothing may connect to this address and port; none if it may."""
    reason = kind(address)
    if reason is None:
        return None
    plain = embedded(address)
    if plain not in METADATA and any(entry.covers(plain, port) or entry.covers(address, port) for entry in allowed):
        return None
    return f"{address} is {reason}"
