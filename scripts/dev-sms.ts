// `npm run dev:sms`: the registry from its sources. Node restarts it when a file in src/ changes, and every start builds
// the console again, so that reloading the page in the browser shows the change.
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildConsole } from './build-console.ts';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
mkdirSync(join(root, '.dev'), { recursive: true, mode: 0o700 });
await buildConsole(root, join(root, 'dist'));
await import('../src/cli/sms/entry.ts');
