import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { etcd } from '../../scripts/engines/etcd.ts';
import { natsServer } from '../../scripts/engines/nats-server.ts';
import { builtCommand } from '../support/built-command.ts';
import { needsEngine, skipIfMissing } from '../support/needs.ts';

const DEMO_MS = 300_000;
const script = fileURLToPath(new URL('../../scripts/demo-cluster.ts', import.meta.url));

skipIfMissing(needsEngine(natsServer), needsEngine(etcd));

it(
  'runs of a cluster end once, and nothing is done twice, whatever is killed under them [demo.cluster]',
  async () => {
    builtCommand('spearlet');
    const demo = spawn(process.execPath, [script, '--runs', '20', '--members', '1'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [said, [code]] = await Promise.all([text(demo.stdout), once(demo, 'exit')]);
    expect(code, said).toBe(0);
    for (const what of ['node-1', 'sms-2', 'a nats-server', 'an etcd']) expect(said).toContain(`kill -9 ${what}`);
    expect(said).toContain('20 of 20 runs succeeded');
    expect(said).toMatch(/The tool saw \d+ of 60 calls, 0 of them twice/);
  },
  DEMO_MS,
);
