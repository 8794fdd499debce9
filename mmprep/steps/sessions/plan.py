"""What `align` is to do: the sessions, and the records they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mmprep.errors import UsageError
from mmprep.manifest.model import Record
from mmprep.steps.base import Item
from mmprep.steps.running.names import Names


@dataclass(frozen=True, slots=True)
class Plan:
    """The sessions, and the records they come from.

    Parameters
    ----------
    templates : mapping of str to Record
        Session -> the record whose fields its windows take over.
    old : mapping of str to str
        What items were called before they were renamed.
    """

    root: Path
    items: tuple[Item, ...]
    templates: Mapping[str, Record]
    extra_inputs: tuple[str, ...] = ()
    media_root: Path | None = None
    notes: tuple[str, ...] = ()
    old: Mapping[str, str] = field(default_factory=dict)

    def renamed(self, names: Names) -> Plan:
        """Call the items, and so the files that are written, by other names.

        Raises
        ------
        UsageError
            A name is not in the table, or two sessions become one.
        """
        if names.path is None:
            return self
        names.check((record.subject, record.session) for record in self.templates.values())
        names.check_streams(one["name"] for item in self.items for one in item.spec["streams"])
        known = [(_renamed(item, names), item.id) for item in self.items]
        items = tuple(item for item, _ in sorted(known, key=lambda one: one[0].id))
        old = {item.id: own for item, own in known}
        if len(old) < len(items):
            raise UsageError("two sessions get one name", where=names.path)
        return replace(self, items=items, old=old)


def _renamed(item: Item, names: Names) -> Item:
    """Call an item, and the sources that `sync/` names, by other names."""
    streams = [
        {**one, "source": names.text(one["source"])} if one["source"] else one
        for one in item.spec["streams"]
    ]
    return replace(item, id=names.text(item.id), spec={**item.spec, "streams": streams})
