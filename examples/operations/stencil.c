/* stencil: the mean of the 5 x 5 bytes around each byte of an image; outside of the image is 0. The
 * image consists of tiles of `width` x `height` bytes, `columns` x `rows` of them: tile number n is
 * extent n / subfiles of subfile n % subfiles. One new extent for each tile. */
#include "pario_operation.h"

enum { BORDER = 2, SIDE = 5 };

/* The part of a tile that another tile needs: a rectangle, and the width of the tile. */
typedef struct {
  uint32_t x, y, width, height, tile_width, reserved;
} rectangle;

static struct {
  uint32_t width, height, columns, rows;
} grid;

static pario_buffer padded, mean, requests, part;

PARIO_EXPORT(pario_prepare) {
  grid.width = (uint32_t)pario_parameter_number(input, "width", 0);
  grid.height = (uint32_t)pario_parameter_number(input, "height", 0);
  grid.columns = (uint32_t)pario_parameter_number(input, "columns", 0);
  grid.rows = (uint32_t)pario_parameter_number(input, "rows", 0);
  if (grid.width < BORDER || grid.height < BORDER || grid.width > 4096 || grid.height > 4096 ||
      !grid.columns || !grid.rows || grid.columns > 65535 || grid.rows > 65535)
    return pario_failure("stencil needs width, height (2 to 4096), columns and rows (1 to 65535)");
  return pario_nothing();
}

static uint32_t tile_of(const pario_input *input) {
  return (uint32_t)(input->extent * input->subfiles + input->subfile);
}

/* Calls `visit` for the eight tiles around a tile, those outside of the image left out. */
#define FOR_EACH_NEIGHBOUR(tile)                                                             \
  for (int32_t dy = -1; dy <= 1; dy++)                                                       \
    for (int32_t dx = -1; dx <= 1; dx++)                                                     \
      if ((dx || dy) && (uint32_t)((int32_t)((tile) % grid.columns) + dx) < grid.columns &&  \
          (uint32_t)((int32_t)((tile) / grid.columns) + dy) < grid.rows)

PARIO_EXPORT(pario_neighbours) {
  const uint32_t tile = tile_of(input), entry = sizeof(pario_neighbour) + sizeof(rectangle);
  uint8_t *list = pario_reserve(&requests, 8 * entry);
  uint32_t length = 0;
  if (!list) return pario_failure("there is no memory for the list of neighbours");
  FOR_EACH_NEIGHBOUR(tile) {
    const uint32_t other = tile + (uint32_t)(dy * (int32_t)grid.columns + dx);
    *(pario_neighbour *)(list + length) = (pario_neighbour){
        other % input->subfiles, sizeof(rectangle), other / input->subfiles};
    *(rectangle *)(list + length + sizeof(pario_neighbour)) = (rectangle){
        .x = dx < 0 ? grid.width - BORDER : 0,
        .y = dy < 0 ? grid.height - BORDER : 0,
        .width = dx ? BORDER : grid.width,
        .height = dy ? BORDER : grid.height,
        .tile_width = grid.width};
    length += entry;
  }
  return pario_result(list, length);
}

PARIO_EXPORT(pario_cut) {
  const rectangle *cut = (const rectangle *)input->selection.data;
  if (input->selection.length != sizeof *cut) return pario_failure("this is no rectangle");
  if (!input->is_present) return pario_nothing();
  const uint64_t last = (uint64_t)(cut->y + cut->height - 1) * cut->tile_width + cut->x + cut->width;
  if (last > input->body.length) return pario_failure("a tile is smaller than width x height");
  uint8_t *to = pario_reserve(&part, cut->width * cut->height);
  if (!to) return pario_failure("there is no memory for a part of a tile");
  for (uint32_t y = 0; y < cut->height; y++)
    for (uint32_t x = 0; x < cut->width; x++)
      to[y * cut->width + x] = input->body.data[(cut->y + y) * cut->tile_width + cut->x + x];
  return pario_result(to, cut->width * cut->height);
}

PARIO_EXPORT(pario_process) {
  const uint32_t width = grid.width, height = grid.height, stride = width + 2 * BORDER;
  const uint32_t padded_length = stride * (height + 2 * BORDER);
  if (input->body.length != width * height) return pario_failure("a tile is not width x height");
  uint8_t *around = pario_reserve(&padded, padded_length);
  uint8_t *to = pario_reserve(&mean, width * height);
  if (!around || !to) return pario_failure("there is no memory for a tile");
  for (uint32_t i = 0; i < padded_length; i++) around[i] = 0;
  for (uint32_t y = 0; y < height; y++)
    for (uint32_t x = 0; x < width; x++)
      around[(y + BORDER) * stride + x + BORDER] = input->body.data[y * width + x];
  uint32_t number = 0;
  FOR_EACH_NEIGHBOUR(tile_of(input)) {
    const pario_bytes border = input->neighbours[number++];
    const uint32_t columns = dx ? BORDER : width, rows = dy ? BORDER : height;
    const uint32_t left = dx < 0 ? 0 : dx ? width + BORDER : BORDER;
    const uint32_t top = dy < 0 ? 0 : dy ? height + BORDER : BORDER;
    if (border.length != columns * rows) continue; /* a tile that does not exist is 0 */
    for (uint32_t y = 0; y < rows; y++)
      for (uint32_t x = 0; x < columns; x++)
        around[(top + y) * stride + left + x] = border.data[y * columns + x];
  }
  for (uint32_t y = 0; y < height; y++)
    for (uint32_t x = 0; x < width; x++) {
      uint32_t sum = 0;
      for (uint32_t row = 0; row < SIDE; row++)
        for (uint32_t column = 0; column < SIDE; column++)
          sum += around[(y + row) * stride + x + column];
      to[y * width + x] = (uint8_t)(sum / (SIDE * SIDE));
    }
  return pario_extent(input->subfile, input->extent, input->header,
                      (pario_bytes){to, width * height});
}
