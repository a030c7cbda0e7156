"""Shares: how many containers may have one device, and whether the kubelet can be told of them."""

from __future__ import annotations

from agent.config.ids import shortest
from agent.config.scope import Scope
from agent.config.texts import Phrase
from agent.config.tree import Branch
from agent.core.assemble import LIST_LIMIT
from agent.core.device import list_bytes
from agent.core.resource import SHARE_MARK
from agent.core.text import ID_LIMIT


def compile_shares(tree: Branch, scope: Scope, ids: tuple[Phrase, ...]) -> int | None:
    """The number of shares of each device; None where it is whole, which is `replicas = 1` and only that."""
    branch = tree.branch("replicas")
    leaf = branch.leaf("count") if branch else None
    if leaf is None:
        return None
    count = leaf.value
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        message = "replicas says how many containers may share one device: a whole number from 1"
        scope.error(leaf.spot.error("type", message, "write for example 4"))
        return None
    if count == 1:
        return None
    length = shortest(ids, scope.source) if scope.source else 1
    most = most_shares(length)
    if count > most:
        message = f"{count} shares × {share_bytes(length, count)} bytes exceed the kubelet's 4 MiB list"
        scope.error(leaf.spot.error("list-size", message, f"at most {most}"))
        return None
    if not scope.single and scope.source and 2 * count * share_bytes(length, count) > LIST_LIMIT:
        size = count * share_bytes(length, count) / (1024 * 1024)
        message = f"{count:,} ids of one device are a list of {size:.1f} MiB; a second would pass the kubelet's 4 MiB"
        write = f"write at most {most_shares(length, devices=2)}, or make a resource of each device"
        scope.warn(leaf.spot.warning("list-size", message, write))
    return count


def share_bytes(id_length: int, count: int) -> int:
    """Bytes of one share in the kubelet's list, for ids of that length in that many shares."""
    return list_bytes(min(ID_LIMIT, id_length + len(f"{SHARE_MARK}{count}")))


def most_shares(id_length: int, devices: int = 1) -> int:
    """The most shares of so many devices that one list can hold."""
    most = LIST_LIMIT // (devices * share_bytes(id_length, 1))
    while devices * most * share_bytes(id_length, most) > LIST_LIMIT:
        most = min(most - 1, LIST_LIMIT // (devices * share_bytes(id_length, most)))
    return most
