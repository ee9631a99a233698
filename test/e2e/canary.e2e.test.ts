import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Canaries } from './canaries.ts';
import { calls, playModel } from './canary-places.ts';
import { folder, hostConfig, plantRecords, privateFile, taskConfig } from './canary-records.ts';
import { Cli, fixture, spearRun } from './spear-run.ts';
import { SteeredModel } from './steered-model.ts';

vi.setConfig({ testTimeout: 180_000 });

it('the search finds a secret in every form [secrets.canary]', () => {
  const canaries = new Canaries();
  const value = canaries.plant('here');
  const forms = [
    value,
    JSON.stringify({ value }),
    encodeURIComponent(value),
    new URLSearchParams({ value }).toString(),
    ...['', 'u', 'us', 'user:'].map((before) => Buffer.from(`${before}${value} and more`).toString('base64')),
    Buffer.from(value).toString('base64url'),
    Buffer.from(value).toString('hex'),
    Buffer.from(value, 'utf16le').toString('latin1'),
    inspect(Buffer.from(value)),
  ];
  for (const form of forms) expect(canaries.foundIn({ text: `before ${form} after` }), form).not.toEqual([]);
  expect(canaries.foundIn({ text: 'nothing' })).toEqual([]);
});

describe('a secret that goes into spear-run', () => {
  it('does not come out of it anywhere [secrets.canary]', async () => {
    const { canaries, records, env } = await plantRecords();
    const model = new SteeredModel();
    onTestFinished(() => model.stop());
    const host = hostConfig(canaries, await model.start());
    const password = canaries.plant('argument', true);
    const taskEnv = { TASK_TOKEN: canaries.plant('task-env', true) };
    const directory = folder();
    for (const [id, record] of Object.entries(records))
      writeFileSync(join(directory, `${id}.json`), JSON.stringify(record));
    const audit = join(folder(), 'audit.jsonl');
    const cli = new Cli(
      [
        fixture('c/files.wasm'),
        ...['--task-config', taskConfig(Object.keys(records), taskEnv), '--config', host.file, '--mcp-dir', directory],
        ...['--limit', 'timeout_ms=170000', '--audit', audit, '--metrics', ':0', '--json', '--verbose'],
      ],
      { env: { ...env, ...host.env } },
    ).listen();
    cli.child.stdin.end();
    await cli.says('stderr', '/metrics');
    const playing = playModel(model, password);
    const early = await Promise.race([playing, cli.finished()]);
    if ('code' in early) throw new Error(`it ended early: ${early.stderr}`);
    const { stdout, stderr, code } = await cli.finished();
    const { heard, answers } = early;
    // It is a test only if every call was made, and what the servers said would have been there.
    expect(answers.length, stderr).toBeGreaterThanOrEqual(calls.length);
    expect(answers.filter((answer) => answer.includes('[redacted]')).length).toBeGreaterThan(calls.length / 2);
    expect(stderr).toContain('starting with [redacted]');
    expect(JSON.parse(stdout)).toMatchObject({ exit_code: code });
    const trail = readFileSync(audit, 'utf8');
    expect(trail).toContain('leaky');
    // The model made up the arguments itself, so it may read them again; nobody else may.
    const own = heard.replaceAll(password, '');
    expect(canaries.foundIn({ stdout, stderr, audit: trail, 'the model': own })).toEqual([]);
  });

  it('is not in what it shows while it runs: metrics and command lines [secrets.canary]', async () => {
    const { canaries, records, env } = await plantRecords();
    const model = new SteeredModel();
    onTestFinished(() => model.stop());
    const host = hostConfig(canaries, await model.start());
    const directory = folder();
    writeFileSync(join(directory, 'leaky.json'), JSON.stringify(records.leaky));
    const flags = ['--task-config', taskConfig(['leaky']), '--config', host.file, '--mcp-dir', directory];
    const cli = new Cli([fixture('c/files.wasm'), ...flags, '--metrics', ':0'], { env: { ...env, ...host.env } });
    cli.listen().child.stdin.end();
    const request = async () => {
      const next = await Promise.race([model.next(), cli.finished()]);
      if ('code' in next) throw new Error(`it ended early: ${next.stderr}`);
      return next;
    };
    (await request()).call('leaky_result', { password: 'x' });
    (await request()).call('leaky_failure', { password: 'x' });
    const last = await request();
    const commandLines = readdirSync('/proc').map((name) => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, 'utf8');
      } catch {
        return '';
      }
    });
    const url = await cli.says('stderr', '/metrics').then(() => /http:\S+\/metrics/.exec(cli.text.stderr)?.[0] ?? '');
    const metrics = await (await fetch(url)).text();
    last.say('the end');
    const { stderr, stdout } = await cli.finished();
    expect(metrics).toContain('leaky');
    expect(commandLines.join('\n')).toContain('leaky.mjs');
    expect(canaries.foundIn({ stdout, stderr, metrics, commandLines: commandLines.join('\n') })).toEqual([]);
  });

  it('is not in what a gateway says that repeats it, or that cannot be reached [secrets.canary]', async () => {
    const canaries = new Canaries();
    const gateway = createServer((request, response) => {
      const { authorization = '', 'x-gateway-token': token } = request.headers;
      const heard = `${authorization} ${token} ${Buffer.from(authorization).toString('base64')}`;
      const answers: Record<string, () => void> = {
        '/refuse/chat/completions': () => response.writeHead(401).end(JSON.stringify({ error: { message: heard } })),
        '/nonsense/chat/completions': () => response.end(heard),
        '/answer/chat/completions': () =>
          response.end(JSON.stringify({ choices: [{ index: 0, message: { role: 'assistant', content: heard } }] })),
      };
      answers[request.url ?? '']?.();
    }).listen(0, '127.0.0.1');
    onTestFinished(() => {
      gateway.closeAllConnections();
      gateway.close();
    });
    await once(gateway, 'listening');
    const base = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
    for (const place of ['/refuse', '/nonsense', '/answer']) {
      const host = hostConfig(canaries, `${base}${place}`);
      const args = [fixture('c/chat.wasm'), '--config', host.file, '--verbose', '--', 'hello'];
      const { stdout, stderr } = await spearRun(args, { env: host.env });
      expect(stdout + stderr, place).toContain('[redacted]');
      expect(canaries.foundIn({ stdout, stderr }), place).toEqual([]);
    }
    const proxy = `http://me:${canaries.plant('proxy-password', true)}@127.0.0.1:1`;
    const host = hostConfig(canaries, 'http://model.test/v1');
    const { stdout, stderr } = await spearRun([fixture('c/chat.wasm'), '--config', host.file, '--', 'hello'], {
      env: { ...host.env, HTTP_PROXY: proxy },
    });
    expect(stdout + stderr).toContain('is unreachable at http://model.test');
    expect(canaries.foundIn({ stdout, stderr })).toEqual([]);
  });

  it('is not in what is said about a mistake of its user [secrets.canary]', async () => {
    const canaries = new Canaries();
    const value = canaries.plant('flag', true);
    const toml = (text: string) => privateFile('config.toml', text);
    const mistakes = [
      ['--env', value],
      ['--sms-token', value, '--nonsense'],
      ['--config', toml(`[backends.a]\nkind = "openai"\napi_key = "${value}"\nbase_url = "x"\nmodel = "m"\n`)],
      ['--config', toml(`[backends.a]\nkind = "${'openai'}"\napi_key = ${value}\n`)],
      ['--config', toml(`[egress]\nallow_addresses = ["${value}"]\nallow_hosts = ["http://${value}"]\n`)],
      ['--task-config', privateFile('task.json', `{"env": {"TOKEN": "${value}", }}`)],
      ['--sms', `http://me:${value}@127.0.0.1:1`, '--task-config', taskConfig([])],
    ];
    for (const flags of mistakes) {
      const { stdout, stderr, code } = await spearRun([fixture('c/hello.wasm'), ...flags, '--json']);
      expect(code, stderr).toBe(125);
      expect(canaries.foundIn({ stdout, stderr }), flags[0]).toEqual([]);
    }
  });

  it('is not in what it says when it crashes', async () => {
    const canaries = new Canaries();
    const model = new SteeredModel();
    onTestFinished(() => model.stop());
    const host = hostConfig(canaries, await model.start());
    const mistake = privateFile(
      'mistake.cjs',
      `process.on('SIGUSR2', () => {
         const key = process.env.MODEL_KEY;
         const cause = Object.assign(new Error('Bearer ' + key), { headers: { authorization: key } });
         Promise.reject(Object.assign(new Error('failed with ' + Buffer.from('x' + key).toString('base64'), { cause }), { key }));
       });`,
    );
    const cli = new Cli([fixture('c/chat.wasm'), '--config', host.file, '--', 'hello'], {
      env: host.env,
      nodeArgs: ['--require', mistake],
    }).listen();
    await model.next();
    cli.child.kill('SIGUSR2');
    const { code, stdout, stderr } = await cli.finished();
    expect(code).toBe(125);
    expect(stderr).toContain('spear-run: internal error, please report it');
    expect(stderr).toContain('failed with');
    expect(stderr).toContain('caused by: Error: Bearer [redacted]');
    expect(canaries.foundIn({ stdout, stderr })).toEqual([]);
  });
});
