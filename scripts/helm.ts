// Builds Helm, which the tests of deploy/ render and lint the chart with, into a cache directory, and prints where it is.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const VERSION = 'v3.19.0';

/** Where it is, or would be. */
export function helmPath(): string {
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  return join(cache, 'spear', 'tools', `helm-${VERSION}`, 'helm');
}

function build(path: string): number {
  const folder = join(path, '..');
  mkdirSync(folder, { recursive: true });
  const go = spawnSync('go', ['install', `helm.sh/helm/v3/cmd/helm@${VERSION}`], {
    stdio: 'inherit',
    env: { ...process.env, GOBIN: folder, GOFLAGS: '-mod=mod' },
  });
  if (go.error) console.error(`helm is built by Go, which cannot be started: ${go.error.message}`);
  return go.status ?? 1;
}

if (import.meta.main) {
  const path = helmPath();
  process.exitCode = existsSync(path) ? 0 : build(path);
  if (process.exitCode === 0) console.log(path);
}
