import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** An empty PATH is a machine without compilers. */
function build(...args: string[]) {
  const env = { PATH: '', WASI_SDK_PATH: '' };
  return spawnSync(process.execPath, ['scripts/build-guests.ts', '--check', ...args], {
    cwd: root,
    env,
    encoding: 'utf8',
  });
}

describe('npm run build:guests', () => {
  it('names a missing toolchain and how to install it, and is no failure', () => {
    const { status, stdout, stderr } = build('--only', 'c');
    expect(stdout).toContain('fixtures/c/hello.wasm');
    expect(stderr).toContain('clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32');
    expect(status).toBe(0);
  });

  it('fails on a missing toolchain with --strict', () => {
    expect(build('--only', 'c', '--strict').status).toBe(1);
  });

  it('rebuilds exactly what is in fixtures', () => {
    const { status, stdout, stderr } = build('--only', 'wat');
    expect(stderr).toBe('');
    expect(stdout).toContain('fixtures/ is up to date');
    expect(status).toBe(0);
  });

  it('names the languages it knows when asked for another', () => {
    const { status, stderr } = build('--only', 'zig');
    expect(stderr).toContain('--only zig: not one of c, assemblyscript, javascript, rust, wat');
    expect(status).toBe(1);
  });
});
