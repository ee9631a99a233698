import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { goVersion, ownGo } from '../../../scripts/engines/go.ts';

describe('the version of Go', () => {
  it.each([
    ['go1.26', [1, 26]],
    ['go1.26.8', [1, 26]],
    ['go1.26.8 X:nocoverageredesign', [1, 26]],
    ['go1.27rc1', [1, 27]],
    ['devel go1.28-3a7c5b2d10 Tue Nov 3 10:00:00 2026 +0000', [1, 28]],
    ['go version go1.24.1 linux/amd64', [1, 24]],
    ['', null],
    ['devel +3a7c5b2d10', null],
  ])('of %j is %j', (text, version) => {
    expect(goVersion(text)).toEqual(version);
  });
});

describe('the Go of this machine', () => {
  it('is queried in a directory that exists, also before the first build', async () => {
    const run = async (_command: string, _args: readonly string[], cwd: string) => {
      if (!existsSync(cwd)) throw new Error(`spawn go ENOENT (cwd ${cwd})`);
      return 'go1.26.8';
    };
    expect(await ownGo(run)).toEqual({ go: 'go', problem: null });
  });

  it('may be missing on PATH and installed in /usr/local/go', async () => {
    const run = async (command: string) => {
      if (command === 'go') throw new Error('spawn go ENOENT');
      return 'go1.24';
    };
    expect(await ownGo(run)).toEqual({ go: '/usr/local/go/bin/go', problem: null });
  });

  it('is rejected with its version and the error of each command that was tried', async () => {
    const run = async (command: string) => {
      if (command === 'go') return 'go1.19.8';
      throw new Error('spawn /usr/local/go/bin/go ENOENT');
    };
    expect(await ownGo(run)).toEqual({
      go: null,
      problem: 'go is go1.19.8\nspawn /usr/local/go/bin/go ENOENT',
    });
  });
});
