"""Reader of a route from a subject: to other subjects, to files and to their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.core.language.value import Absent, Value, make_sort_key, merge_values
from agent.scanners.glob_files import expand, is_glob
from agent.scanners.word_route import Route
from agent.scanners.word_table import LookCache, WordSubject


class RouteReader:
    """Reader of routes. The paths that it reads are added to `paths` of its cache."""

    def __init__(self, cache: LookCache) -> None:
        self.cache = cache

    def read_value(self, subject: WordSubject, route: Route) -> Value | Absent:
        """Return the value of the word or path at the end. With a list relation it is the list of all values."""
        if not route.is_list:
            end = self._follow_single(subject, route)
            return end if isinstance(end, Absent) else self._read_end(end, route)
        ends = self.follow_relations(subject, route)
        if isinstance(ends, Absent):
            return ends
        return merge_values([self._read_end(end, route) for end in ends])

    def follow_relations(self, subject: WordSubject, route: Route) -> Sequence[WordSubject] | Absent:
        """Return the subjects at the end of the relations: one, or any number with a list relation."""
        sources: list[WordSubject] = [subject]
        for relation in route.relations:
            targets: list[WordSubject] = []
            for source in sources:
                target = relation.follow(self.cache, source)
                if isinstance(target, tuple):
                    targets.extend(target)
                elif isinstance(target, WordSubject):
                    targets.append(target)
                elif len(sources) == 1:
                    return Absent(f"{relation.name}: {target.reason}", target.unreadable)
            self.cache.paths.update(source.directory for source in targets if source.directory)
            sources = targets
        return sources

    def list_paths(self, subject: WordSubject, route: Route) -> Sequence[str] | Absent:
        """Return all paths that match the path of a route, in natural order."""
        sources = self.follow_relations(subject, route)
        if isinstance(sources, Absent):
            return sources
        paths: list[str] = []
        for source in sources:
            if not route.absolute and not source.directory:
                return Absent("it has no directory below /sys")
            for path in self._expand(source, route):
                if isinstance(path, str):
                    paths.append(path)
                elif path[1].unreadable:
                    return Absent(f"{path[0]}: {path[1].reason}", unreadable=True)
        return sorted(paths, key=make_sort_key)

    def read_file(self, path: str) -> str | Absent:
        """Return the target name of a link, the name of a directory, or the text of a file, if it has any.

        For /dev it is only the name of the node. A path that leads out is absent.
        """
        if path.startswith("/dev/"):
            self.cache.paths.add(path)
            node = self.cache.find_node(path)
            return node if isinstance(node, Absent) else node.path.rpartition("/")[2]
        parent, _, name = path.rpartition("/")
        real_path = self.cache.get_or_read("real", parent, lambda: self.cache.root.resolve(parent))
        if isinstance(real_path, Absent):
            self.cache.paths.add(self._find_nearest(parent))
            return real_path
        if not real_path.startswith(("/sys/", "/proc/")) and real_path not in {"/sys", "/proc"}:
            return Absent("leads out of /sys and /proc")
        self.cache.paths.add(real_path)
        target = self.cache.read_link_name(f"{real_path}/{name}")
        if isinstance(target, str):
            return target
        text = self.cache.read_text(f"{real_path}/{name}")
        if not text:
            return Absent("is empty")
        if isinstance(text, Absent) and not text.unreadable and self.cache.root.is_directory(f"{real_path}/{name}"):
            directory = self.cache.root.resolve(f"{real_path}/{name}")
            return directory if isinstance(directory, Absent) else directory.rpartition("/")[2]
        return text

    def _follow_single(self, subject: WordSubject, route: Route) -> WordSubject | Absent:
        """Return the one subject at the end of relations without a list relation."""
        for relation in route.relations:
            target = relation.follow(self.cache, subject)
            if isinstance(target, Absent):
                return Absent(f"{relation.name}: {target.reason}", target.unreadable)
            subject = target[0] if isinstance(target, tuple) else target
            if subject.directory:
                self.cache.paths.add(subject.directory)
        return subject

    def _expand(self, subject: WordSubject, route: Route) -> Iterator[str | tuple[str, Absent]]:
        """Yield the paths that match a route, in no order.

        The paths where new matches can appear are added to the cache.
        """
        base = "" if route.absolute else subject.directory
        if route.is_list:
            self.cache.paths.update(self._list_watch_paths(base, route.path))
        return expand(self.cache.root, base, route.path)

    def _read_end(self, subject: WordSubject, route: Route) -> Value | Absent:
        if route.word is not None:
            return route.word.read(self.cache, subject)
        if route.property:
            return self._read_property(subject, route.property)
        if not route.path:
            return subject.name
        if not route.absolute and not subject.directory:
            return Absent("it has no directory below /sys")
        paths = list(self._expand(subject, route))
        paths.sort(key=lambda path: make_sort_key(path if isinstance(path, str) else path[0]))
        texts = [
            Absent(result[1].reason, result[1].unreadable) if isinstance(result, tuple) else self.read_file(result)
            for result in paths
        ]
        if not route.is_list:
            return texts[0]
        return tuple(text for text in texts if isinstance(text, str))

    def _read_property(self, subject: WordSubject, name: str) -> Value | Absent:
        if not subject.directory:
            return Absent("udev does not know it")
        return self.cache.read_properties(subject.directory).get(name)

    def _list_watch_paths(self, base: str, components: Sequence[str]) -> Iterator[str]:
        """Yield the paths where a new match can appear. For a directory below /dev also the path to watch."""
        index = next((index for index, part in enumerate(components) if is_glob(part)), len(components) - 1)
        if base and not index:
            return  # the directory of the subject is already in the paths
        directory = "/".join((base, *components[:index])) or "/"
        yield self._find_nearest(directory)
        if not base and components[0] == "dev":
            yield f"{directory}/{components[index]}"

    def _find_nearest(self, directory: str) -> str:
        """Return the canonical path of a directory, or of the nearest existing one above it."""
        while isinstance(real_path := self.cache.root.resolve(directory), Absent):
            directory = directory.rpartition("/")[0]
        return real_path
