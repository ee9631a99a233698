import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fixture, root, scratch, spearRun } from '../e2e/spear-run.ts';
import { expectResources } from './resources-expectations.ts';

describe('the example resources', () => {
  it.each([
    'c/resources.wasm',
    'c/resources.component.wasm',
    'assemblyscript/resources.wasm',
    'assemblyscript/resources.component.wasm',
    'rust/resources.wasm',
    'rust/resources.component.wasm',
    'javascript/resources.component.wasm',
  ])('%s lists, reads and gets what the real server has [mcp.offers]', { timeout: 60_000 }, async (wasm) => {
    await expectResources(fixture(wasm));
  });

  it('says what policy or the server is against', async () => {
    const task = ['--mcp-dir', fixture('mcp.d'), '--task-config', fixture('tasks/resources.json')];
    const args = ['everything', 'demo://resource/dynamic/blob/1', 'args-prompt', '{}'];
    const { code, stdout } = await spearRun([fixture('c/resources.wasm'), ...task, '--', ...args], { cwd: root });
    expect(code).toBe(3);
    expect(stdout).toContain("the server's allowed_resources do not match");
    expect(stdout).toContain('args-prompt: prompt "args-prompt": ');
  });
});

it('a component that was built for ABI 1.0 runs as before [component.import-versions]', async () => {
  const bytes = readFileSync(fixture('c/chat.component.wasm')).toString('latin1');
  expect(bytes).toContain('spear:host/cchat@1.1.0');
  const old = join(scratch, 'chat-1.0.component.wasm');
  writeFileSync(old, bytes.replaceAll('@1.1.0', '@1.0.0'), 'latin1');
  const { code, stdout } = await spearRun([old, '--script', fixture('scripts/chat.json')]);
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('WebAssembly is') });
});
