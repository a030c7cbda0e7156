"""Following a route from a thing: to other things, to files, and to what these say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.core.language.value import Absent, Value, make_sort_key, merge_values
from agent.scanners.glob_files import expand, is_glob
from agent.scanners.word_route import Route
from agent.scanners.word_table import LookCache, WordSubject


class RouteReader:
    """Follows routes. Where what it finds comes from is told to the places of its `sight`."""

    def __init__(self, sight: LookCache) -> None:
        self.sight = sight

    def read_value(self, thing: WordSubject, way: Route) -> Value | Absent:
        """What the word or the path at the end says; of several things, all that is said."""
        if not way.is_list:
            only = self._single(thing, way)
            return only if isinstance(only, Absent) else self._say(only, way)
        things = self.follow_relations(thing, way)
        if isinstance(things, Absent):
            return things
        return merge_values([self._say(each, way) for each in things])

    def follow_relations(self, thing: WordSubject, way: Route) -> Sequence[WordSubject] | Absent:
        """The things at the end of the relations: one, or with a `many` among them any number."""
        things: list[WordSubject] = [thing]
        for relation in way.relations:
            reached: list[WordSubject] = []
            for each in things:
                found = relation.follow(self.sight, each)
                if isinstance(found, tuple):
                    reached.extend(found)
                elif isinstance(found, WordSubject):
                    reached.append(found)
                elif len(things) == 1:
                    return Absent(f"{relation.name}: {found.reason}", found.unreadable)
            self.sight.paths.update(each.directory for each in reached if each.directory)
            things = reached
        return things

    def list_paths(self, thing: WordSubject, way: Route) -> Sequence[str] | Absent:
        """All that fits the path of a way, in natural order."""
        things = self.follow_relations(thing, way)
        if isinstance(things, Absent):
            return things
        found: list[str] = []
        for each in things:
            if not way.absolute and not each.directory:
                return Absent("it has no directory below /sys")
            for path in self._expand(each, way):
                if isinstance(path, str):
                    found.append(path)
                elif path[1].unreadable:
                    return Absent(f"{path[0]}: {path[1].reason}", unreadable=True)
        return sorted(found, key=make_sort_key)

    def read_file(self, path: str) -> str | Absent:
        """Of a link the name of what it leads to, of a directory its name, of a file its text, if it has any.

        Of /dev only names are told, of what leads out nothing.
        """
        if path.startswith("/dev/"):
            self.sight.paths.add(path)
            node = self.sight.find_node(path)
            return node if isinstance(node, Absent) else node.path.rpartition("/")[2]
        parent, _, name = path.rpartition("/")
        real = self.sight.get_or_read("real", parent, lambda: self.sight.root.resolve(parent))
        if isinstance(real, Absent):
            self.sight.paths.add(self._nearest(parent))
            return real
        if not real.startswith(("/sys/", "/proc/")) and real not in {"/sys", "/proc"}:
            return Absent("leads out of /sys and /proc")
        self.sight.paths.add(real)
        target = self.sight.read_link_name(f"{real}/{name}")
        if isinstance(target, str):
            return target
        text = self.sight.read_text(f"{real}/{name}")
        if not text:
            return Absent("is empty")
        if isinstance(text, Absent) and not text.unreadable and self.sight.root.is_directory(f"{real}/{name}"):
            directory = self.sight.root.resolve(f"{real}/{name}")
            return directory if isinstance(directory, Absent) else directory.rpartition("/")[2]
        return text

    def _single(self, thing: WordSubject, way: Route) -> WordSubject | Absent:
        """The one thing at the end of relations none of which is a `many`."""
        for relation in way.relations:
            found = relation.follow(self.sight, thing)
            if isinstance(found, Absent):
                return Absent(f"{relation.name}: {found.reason}", found.unreadable)
            thing = found[0] if isinstance(found, tuple) else found
            if thing.directory:
                self.sight.paths.add(thing.directory)
        return thing

    def _expand(self, thing: WordSubject, way: Route) -> Iterator[str | tuple[str, Absent]]:
        """What fits the path of a way, in no order; where something new that fits can come is a place to watch."""
        base = "" if way.absolute else thing.directory
        if way.is_list:
            self.sight.paths.update(self._where_new(base, way.path))
        return expand(self.sight.root, base, way.path)

    def _say(self, thing: WordSubject, way: Route) -> Value | Absent:
        if way.word is not None:
            return way.word.read(self.sight, thing)
        if way.property:
            return self._property(thing, way.property)
        if not way.path:
            return thing.name
        if not way.absolute and not thing.directory:
            return Absent("it has no directory below /sys")
        found = list(self._expand(thing, way))
        found.sort(key=lambda path: make_sort_key(path if isinstance(path, str) else path[0]))
        texts = [
            Absent(why[1].reason, why[1].unreadable) if isinstance(why, tuple) else self.read_file(why) for why in found
        ]
        if not way.is_list:
            return texts[0]
        return tuple(text for text in texts if isinstance(text, str))

    def _property(self, thing: WordSubject, name: str) -> Value | Absent:
        if not thing.directory:
            return Absent("udev does not know it")
        return self.sight.read_properties(thing.directory).get(name)

    def _where_new(self, base: str, components: Sequence[str]) -> Iterator[str]:
        """Where something can come that fits a path; of a directory below /dev also what to watch it by."""
        index = next((index for index, part in enumerate(components) if is_glob(part)), len(components) - 1)
        if base and not index:
            return  # the thing's own directory is a place already
        directory = "/".join((base, *components[:index])) or "/"
        yield self._nearest(directory)
        if not base and components[0] == "dev":
            yield f"{directory}/{components[index]}"

    def _nearest(self, directory: str) -> str:
        """The canonical path of a directory, or of the nearest above it that is there."""
        while isinstance(real := self.sight.root.resolve(directory), Absent):
            directory = directory.rpartition("/")[0]
        return real
