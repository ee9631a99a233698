// Sends every frame of stream 1 back, with its data in capitals, until the client has nothing more to say.
import { EPIPE, lastRead, print, UserStream } from "./spear";

const STREAM: u32 = 1;

export function run(): i32 {
  const stream = new UserStream(STREAM);
  if (stream.fd < 0) {
    print("no client side (" + stream.fd.toString() + "): run it with --stream");
    return 1;
  }
  let count = 0;
  let rc = 0;
  for (let frame = stream.receive(); frame != null; frame = stream.receive()) {
    for (let i = 0; i < frame.data.length; i++) {
      const byte = frame.data[i];
      if (byte >= 0x61 && byte <= 0x7a) frame.data[i] = byte - 0x20;
    }
    rc = stream.send(frame);
    if (rc < 0) break;
    count++;
  }
  if (rc == 0) rc = lastRead;
  stream.close();
  print(count.toString() + " frames");
  return rc < 0 && rc != -EPIPE ? 1 : 0;
}
