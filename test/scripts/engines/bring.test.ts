import { describe, expect, it, vi } from 'vitest';
import { type Engine, failureText, findEngine } from '../../../scripts/engines/bring.ts';

const engine: Engine = {
  name: 'no-such-engine',
  version: '1',
  variable: 'SPEAR_NO_SUCH_ENGINE',
  install: 'Go',
  anyVersion: true,
  sources: [
    {
      title: 'never',
      bring: () => {
        throw new Error('built inside a test');
      },
    },
  ],
};

describe('findEngine', () => {
  it('names the command that installs a missing engine, and builds nothing', () => {
    expect(() => findEngine(engine)).toThrow('no-such-engine is missing: run `npm run engines` (needs Go)');
  });

  it('returns the binary that the variable names', () => {
    vi.stubEnv('SPEAR_NO_SUCH_ENGINE', process.execPath);
    expect(findEngine(engine)).toBe(process.execPath);
    vi.unstubAllEnvs();
  });

  it('rejects a variable that names no executable file', () => {
    vi.stubEnv('SPEAR_NO_SUCH_ENGINE', '/nowhere/engine');
    expect(() => findEngine(engine)).toThrow('SPEAR_NO_SUCH_ENGINE: /nowhere/engine is not an executable file');
    vi.unstubAllEnvs();
  });
});

describe('failureText', () => {
  it('is the end of the output, where the compiler prints its errors', () => {
    const lines = Array.from({ length: 100 }, (_, index) => `line ${index}`);
    const text = failureText(new Error('exit 1'), [...lines, './main.go:3:1: undefined: x'].join('\n'));
    expect(text.split('\n')).toHaveLength(40);
    expect(text).toMatch(/undefined: x$/);
    expect(failureText(new Error('exit 1'), 'x'.repeat(100_000))).toHaveLength(8_000);
  });

  it('is the error of a command that printed nothing', () => {
    expect(failureText(new Error('spawn go ENOENT'), '\n')).toBe('spawn go ENOENT');
  });

  it('says that a command was stopped by its deadline', () => {
    expect(failureText(Object.assign(new Error('killed'), { killed: true }), 'compiling')).toBe(
      'stopped after 15 minutes\ncompiling',
    );
  });
});
