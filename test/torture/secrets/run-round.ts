import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { leakyRecords, plantVariables, playModel } from '../../e2e/canary-places.ts';
import { SteeredModel } from '../../e2e/steered-model.ts';
import type { Random } from '../random.ts';
import { Command } from './command.ts';
import type { LeakyServer } from './leaky-server.ts';
import { mistakes } from './mistakes.ts';
import type { Vault } from './vault.ts';

const guest = fileURLToPath(new URL('../../../fixtures/c/files.wasm', import.meta.url));
const metricsUrl = /http:\S+\/metrics/;

/** How a run ends. */
export const runEnds = ['in order', 'crash', 'SIGTERM', 'deadline', 'refused', 'unreachable', 'mistake'] as const;
export type RunEnd = (typeof runEnds)[number];

/** A program that puts every secret it knows into an error that nobody expects. */
const crash = `process.on('SIGUSR2', () => {
  const key = process.env.MODEL_KEY;
  const cause = Object.assign(new Error('Bearer ' + key), { headers: { authorization: key }, buffer: key });
  Promise.reject(Object.assign(new Error('with ' + Buffer.from('x' + key).toString('base64'), { cause }), { key }));
});`;

/** One run of a guest whose servers, model and user all put secrets in. Returns how much there was to find a secret in. */
export async function runRound(vault: Vault, end: RunEnd, leaky: LeakyServer, random: Random): Promise<number> {
  const { plant } = vault;
  const variables = plantVariables(plant);
  const authFile = vault.file('token', `${plant('auth-file', true)}\n`);
  const records = leakyRecords(plant, { url: leaky.url, authFile });
  const { leaky: stdio } = records as { leaky: { stdio: { args: string[]; env: Record<string, string> } } };
  stdio.stdio.args.push('--token', plant('argument-literal', true), `--api-key=${plant('argument-key', true)}`);
  stdio.stdio.env.SECRET_DEFAULT = `\${ENV:MCP_NOT_SET:-${plant('default-of-a-reference', true)}}`;
  const directory = vault.directory();
  for (const [id, record] of Object.entries(records))
    writeFileSync(join(directory, `${id}.json`), JSON.stringify(record));

  const model = new SteeredModel();
  const address = await model.start();
  const [home, audit] = [vault.directory(), join(vault.directory(), 'audit.jsonl')];
  const password = plant('argument', true);
  const isKeyFile = random.chance(2);
  const key = plant('model-key', true);
  const auditKey = plant('audit-key', true);
  const config = vault.file(
    'config.toml',
    `[backends.main]\nkind = "openai"\nbase_url = "${end === 'unreachable' ? 'http://model.test/v1' : end === 'refused' ? leaky.url('/refuse') : address}"\n` +
      `model = "m"\napi_key = "${isKeyFile ? `file:${vault.file('key', key)}` : 'env:MODEL_KEY'}"\nmax_retries = 0\n` +
      `headers = { "X-Gateway-Token" = "${plant('model-header', true)}" }\n` +
      `[audit]\nkey = "file:${vault.file('audit.key', auditKey)}"\nargs = "${random.pick(['redacted', 'sha256', 'shape', 'none'])}"\n`,
  );
  const task = vault.file(
    'task.json',
    JSON.stringify({
      name: 'canary',
      args: ['go'],
      config: { 'mcp.enabled': 'true', 'mcp.default_server_ids': JSON.stringify(Object.keys(records)) },
      env: { TASK_TOKEN: plant('task-env', true) },
    }),
  );
  const flags = [guest, '--task-config', task, '--config', config, '--mcp-dir', directory, '--audit', audit];
  if (end === 'mistake') flags.push(...random.pick(mistakes)(vault));
  flags.push('--metrics', ':0', '--limit', `timeout_ms=${end === 'deadline' ? 1_500 : 50_000}`, '--verbose');
  if (random.chance(2)) flags.push('--json');
  const env = {
    ...variables,
    HOME: home,
    MODEL_KEY: key,
    UNRELATED_TOKEN: plant('unrelated-variable', true),
    ...(end === 'unreachable' ? { HTTP_PROXY: `http://me:${plant('proxy-password', true)}@127.0.0.1:1` } : {}),
  };
  const run = new Command(
    'spear-run',
    flags,
    env,
    end === 'crash' ? ['--require', vault.file('crash.cjs', crash)] : [],
  );
  let answers = 0;
  const playing = playModel(model, password).then(({ heard, answers: given }) => {
    // The model made up the arguments itself, so it may read them again; nobody else may.
    vault.out['what the model heard'] = heard.replaceAll(password, '');
    answers = given.length;
  });
  const url = await run.says(metricsUrl);
  if (end === 'crash' || end === 'SIGTERM') {
    await Promise.race([playing, run.finished(), run.says(/starting with/)]);
    run.child.kill(end === 'crash' ? 'SIGUSR2' : 'SIGTERM');
  }
  if (url !== null)
    vault.out.metrics = await fetch(url).then(
      (answer) => answer.text(),
      () => '',
    );
  await run.finished();
  await model.stop();
  vault.out['stdout of spear-run'] = run.stdout;
  vault.out['stderr of spear-run'] = run.stderr;
  vault.keepFiles('trail', join(audit, '..'));
  vault.keepFiles('home', home);
  // A run that ends in order proves something only if every tool was called, any other if it said anything.
  return end === 'in order' ? answers : run.stderr.length;
}
