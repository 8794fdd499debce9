_Column = tuple[bytes | None, int, bytes | None, bytes]

def read(
    data: bytes,
    delimiter: int,
    kinds: bytes,
    nulls: tuple[bytes, ...],
    comment: int,
    header: bytes,
    scale: int,
    /,
) -> tuple[int, list[_Column | None]] | None:
    """Read a block of whole lines.

    Parameters
    ----------
    kinds : bytes
        One a cell: `i` int64, `f` float64, `t` decimal, as an integer of `scale` decimals, `s`
        text, `0` only missing values, `-` not read.
    comment : int
        The byte that starts a comment, or -1.
    header : bytes
        A line that is no row; may be empty.

    Returns
    -------
    n_rows : int
    columns : list of (valid, n_missing, offsets, values) or None
        As the buffers of an Arrow array; valid is None where nothing is missing, offsets but for
        text.

    None where a line or cell is not plain: the block must be read another way.
    """

def kinds(
    data: bytes,
    delimiter: int,
    n_cells: int,
    nulls: tuple[bytes, ...],
    comment: int,
    header: bytes,
    /,
) -> bytes | None:
    """Say what kind each cell of the lines of a block needs; as `read`, `?` where it is unclear."""
