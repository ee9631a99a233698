import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { installedGo } from '../../scripts/engines/go.ts';
import { fixture, root, scratch, spearRun } from '../e2e/spear-run.ts';
import { needs, skipIfMissing } from '../support/needs.ts';
import { expectResources } from './resources-expectations.ts';

const BUILD_MS = 300_000;
const script = ['--script', fixture('scripts/inventory.json')];

/** The compiler keeps what it built before in the cache of whoever runs the tests. */
function build(go: string, example: string): string {
  const output = join(scratch, `${example}.wasm`);
  const { status, stderr } = spawnSync(go, ['build', '-ldflags=-s -w', '-o', output, `./${example}`], {
    cwd: join(root, 'guest-examples/go'),
    env: { ...process.env, GOOS: 'wasip1', GOARCH: 'wasm', GOTOOLCHAIN: 'local' },
    encoding: 'utf8',
    timeout: BUILD_MS,
  });
  if (status !== 0) throw new Error(`go build ./${example}: ${stderr}`);
  return output;
}

const go = await installedGo();

describe('guests in Go', () => {
  const built: Record<string, string> = {};
  skipIfMissing(needs(go !== null, 'Go', 'npm run engines'));
  beforeAll(() => {
    if (go === null) return;
    for (const example of ['hello', 'stock', 'resources']) built[example] = build(go, example);
  }, BUILD_MS);

  it('hello says hello [guests.go]', async () => {
    const { code, stdout, stderr } = await spearRun([`${built.hello}`]);
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'hello from Go\n', stderr: '' });
  });

  it('stock answers the model’s call of its tool [guests.go]', async () => {
    const { code, stdout, stderr } = await spearRun([`${built.stock}`, ...script]);
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'No, there are three.\n', stderr: '' });
  });

  it('resources reads a resource and gets a prompt [guests.go]', async () => {
    await expectResources(`${built.resources}`);
  });

  it('stock takes its question from the command line, and says what went wrong [guests.go]', async () => {
    const { code, stderr } = await spearRun([`${built.stock}`, ...script, '--', 'Why?']);
    expect(code).toBe(1);
    expect(stderr).toContain('the model did not answer: ');
    expect(stderr).toContain('Why?');
  });
});
