import type { Writable } from 'node:stream';

/** So many writes at a time: a flood, and yet one that can be stopped. */
const AT_A_TIME = 50;

/** Writes again and again, no faster than it is read, until nobody reads any more. */
export function flood(stream: Writable, write: () => void): void {
  const more = () => {
    for (let i = 0; i < AT_A_TIME; i++) {
      if (stream.destroyed || !stream.writable) return;
      write();
    }
    if (stream.writableNeedDrain) stream.once('drain', more);
    else setImmediate(more);
  };
  more();
}
