"""Slices through a volume with what a Python user would pick, for the benchmark `slices`.

Reads one request per line, and answers each with the seconds that it took:

    PEER ox oy oz rx ry rz dx dy dz WIDTH HEIGHT [FILE]
    PEER plane AXIS AT FIRST SECOND WIDTH HEIGHT

The first has pixel (i, j) at o + i * r + j * d, in voxels: the nearest one counts, outside is 0. With
FILE, the pixels are written there, which counts too. The second is across an axis. PEER is memmap,
zarr or tensorstore. The volume is volume.raw in the directory that is given, RGB, followed by its
voxels along x, y and z; what the others read is made of it when it is missing.
"""

import os
import sys
import time

import numpy as np

SHAPE = tuple(int(side) for side in reversed(sys.argv[2:5])) + (3,)
CHUNKS = (17, 32, 32, 3)


def open_all(directory):
    """The volume, as each peer opens it."""
    flat = np.memmap(os.path.join(directory, "volume.raw"), dtype=np.uint8, mode="r", shape=SHAPE)
    import tensorstore
    import zarr

    path = os.path.join(directory, "volume.zarr")
    if not os.path.exists(path):
        array = zarr.create_array(
            store=path, shape=SHAPE, chunks=CHUNKS, dtype="u1", compressors=None, zarr_format=2
        )
        for z in range(0, SHAPE[0], CHUNKS[0]):
            array[z : z + CHUNKS[0]] = flat[z : z + CHUNKS[0]]
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": path}}
    context = tensorstore.Context({"cache_pool": {"total_bytes_limit": 2 << 30}})
    store = tensorstore.open(spec, open=True, context=context).result()
    return {"memmap": flat, "zarr": zarr.open_array(path, mode="r"), "tensorstore": store}


def oblique(peer, volume, numbers, width, height):
    """The nearest voxels of a slice in any direction."""
    origin, right, down = np.array(numbers).reshape(3, 3)
    i, j = np.arange(width)[None, :, None], np.arange(height)[:, None, None]
    position = np.floor(origin + i * right + j * down + 0.5).astype(np.int64)
    x, y, z = position[..., 0], position[..., 1], position[..., 2]
    inside = (x >= 0) & (x < SHAPE[2]) & (y >= 0) & (y < SHAPE[1]) & (z >= 0) & (z < SHAPE[0])
    picture = np.zeros((height, width, 3), np.uint8)
    x, y, z = x[inside], y[inside], z[inside]
    if peer == "memmap":
        picture[inside] = volume[z, y, x]
    elif peer == "zarr":
        channels = np.arange(SHAPE[3])[None, :]
        picture[inside] = volume.vindex[z[:, None], y[:, None], x[:, None], channels]
    else:
        picture[inside] = volume.vindex[z, y, x].read().result()
    return picture


def aligned(peer, volume, axis, at, first, second, width, height):
    """A slice across an axis."""
    a, b = slice(second, second + height), slice(first, first + width)
    index = {"z": (at, a, b), "y": (a, at, b), "x": (a, b, at)}[axis]
    found = volume[index]
    return np.asarray(found.read().result() if peer == "tensorstore" else found)


def main():
    """Answers requests until there are no more."""
    volumes = open_all(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        peer, *words = line.split()
        began = time.perf_counter()
        if words[0] == "plane":
            picture = aligned(peer, volumes[peer], words[1], *map(int, words[2:7]))
        else:
            picture = oblique(peer, volumes[peer], list(map(float, words[:9])), *map(int, words[9:11]))
            if len(words) > 11:
                picture.tofile(words[11])
        picture = np.array(picture)
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main()
