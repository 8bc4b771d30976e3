"""Lance in the child process: one version of a dataset, whose rows are read by their offsets in a fragment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mmlake.formats.columnar.child_source import Answer, limit_memory


class LanceDataset:
    """The version that is open."""

    def __init__(self, root: str, version: int | None, memory_bytes: int) -> None:
        """version: None for the newest. memory_bytes: what opening it may take."""
        import lance

        limit_memory(memory_bytes)
        dataset = lance.dataset(root, version=version)
        self._fragments: list[Any] = dataset.get_fragments()
        head = {
            "version": dataset.version,
            "num_fragments": len(self._fragments),
            "is_elsewhere": bool(dataset.base_paths()),
        }
        self.opened = Answer(head, (), dataset.schema)

    def answer(self, do: str, **request: Any) -> Answer:
        """The answer to a request about one fragment."""
        answers: dict[str, Callable[..., Answer]] = {
            "fragment": self._fragment,
            "count": self._count,
            "rows": self._rows,
        }
        return answers[do](**request)

    def _fragment(self, at: int) -> Answer:
        """The fragment's number and its files, by names that are relative to the dataset."""
        fragment = self._fragments[at]
        paths = [f"data/{file.path}" for file in fragment.data_files()]
        if (deletions := fragment.deletion_file()) is not None:
            paths.append(deletions)
        return Answer({"number": fragment.fragment_id, "paths": paths})

    def _count(self, at: int) -> Answer:
        """How many rows the fragment has, and how many it had before some were deleted."""
        fragment = self._fragments[at]
        return Answer({"num_rows": fragment.count_rows(), "physical_rows": fragment.physical_rows})

    def _rows(
        self, at: int, columns: list[str], offset: int, limit: int, *, buffer_bytes: int, memory_bytes: int
    ) -> Answer:
        """So many rows of the fragment."""
        limit_memory(memory_bytes)
        scanner = self._fragments[at].scanner(
            columns=columns,
            offset=offset,
            limit=limit,
            batch_size=limit,
            batch_readahead=1,
            io_buffer_size=buffer_bytes,
            with_row_id=True,
            with_row_address=True,
            blob_handling="all_binary",
        )
        reader = scanner.to_reader()
        return Answer({}, tuple(reader), reader.schema)
