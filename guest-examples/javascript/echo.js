// Sends every frame of stream 1 back, with its data in capitals, until the client has nothing more to say.
import { say, task, UserStream } from './spear.js';

const capital = (byte) => (byte >= 0x61 && byte <= 0x7a ? byte - 0x20 : byte);

export const run = task(() => {
  const stream = new UserStream(1);
  let count = 0;
  for (const frame of stream) {
    if (!stream.send({ ...frame, data: frame.data.map(capital) })) break;
    count += 1;
  }
  stream.close();
  say.info(`${count} frames`);
});
