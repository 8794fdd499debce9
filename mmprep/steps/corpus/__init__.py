"""How a corpus lies in its folders: places, presets, its own tables of labels, known holes."""
