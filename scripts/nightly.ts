// `npm run test:nightly`: what takes too long for CI. Prints a table at the end; the figures belong on the pages named in
// it. A step that fails does not stop the others.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

const steps = [
  { title: 'torture, every topic, with the soak of a node', script: 'torture', page: 'docs/security.md#torture-tests' },
  { title: 'published MCP servers', script: 'peers', page: 'docs/peers.md' },
  { title: 'bench, all rows', script: 'bench', page: 'docs/performance.md' },
];

const rows: string[] = [];
for (const { title, script, page } of steps) {
  console.log(`\n── npm run ${script}: ${title}\n`);
  const started = performance.now();
  const { status, signal } = spawnSync('npm', ['run', script], { cwd: root, stdio: 'inherit' });
  const minutes = ((performance.now() - started) / 60_000).toFixed(1);
  rows.push(`| ${script} | ${status === 0 ? 'passed' : `failed (${signal ?? status})`} | ${minutes} min | ${page} |`);
  if (status !== 0) process.exitCode = 1;
  if (signal === 'SIGINT') break;
}
console.log(['', '| step | result | time | page |', '|---|---|---|---|', ...rows].join('\n'));
