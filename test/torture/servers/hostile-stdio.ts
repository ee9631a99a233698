// A hostile MCP server over stdio: `node hostile-stdio.ts BEHAVIOUR SEED`.
import { createInterface } from 'node:readline';
import { Random } from '../random.ts';
import type { Wire } from './behaviour.ts';
import { flood } from './flood.ts';
import { messageBehaviours } from './message-behaviours.ts';
import { stdioBehaviours } from './stdio-behaviours.ts';

const [name = '', seed = '0'] = process.argv.slice(2);
const behaviour = messageBehaviours[name] ?? stdioBehaviours[name];
if (!behaviour) throw new Error(`there is no behaviour "${name}"`);
const random = new Random(Number(seed));

const write = (bytes: string | Buffer): undefined => void process.stdout.write(bytes);
process.stdout.on('error', () => process.exit());
const wire: Wire = {
  message: (value) => write(`${JSON.stringify(value)}\n`),
  text: (text) => write(`${text}\n`),
  raw: write,
  close: () => void process.stdout.end(),
  die: () => void process.kill(process.pid, 'SIGKILL'),
  forEver: (more) => void flood(process.stdout, more),
};

createInterface({ input: process.stdin }).on('line', (line) => {
  behaviour.on(JSON.parse(line), wire, random);
});
