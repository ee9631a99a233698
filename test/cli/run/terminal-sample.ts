// A guest and a prompt that want the same terminal, in a process of its own: says what each of them got.
import { writeSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { Terminal } from '../../../src/cli/terminal.ts';
import { StdinReader } from '../../../src/runtime/host/guest-stdio.ts';

const terminal = new Terminal();
const guest = new StdinReader(() => terminal.guestInput() as Readable);
const say = (text: string) => writeSync(1, `${text}\n`);
const line = async () => JSON.stringify(Buffer.from(await guest.read(1_000)).toString());

async function key(): Promise<string> {
  const screen = terminal.open();
  const { promise, resolve } = Promise.withResolvers<string>();
  const giveBack = screen.takeKeys(resolve, () => resolve('lost'));
  screen.write(`prompt ${screen.columns > 0}\n`);
  const pressed = await promise;
  giveBack();
  screen.close();
  return JSON.stringify(pressed);
}

say('guest reads');
say(`guest got ${await line()}`);
say(`prompt got ${await key()}`);
const reading = line();
say(`prompt got ${await key()} while the guest reads`);
say('guest reads on');
say(`guest got ${await reading}`);
guest.close();
say(`prompt got ${await key()} after the guest`);
