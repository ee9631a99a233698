import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { spearletProgram } from '../../src/cli/spearlet/table.ts';
import { loadHostConfig } from '../../src/config/host/host-config.ts';
import { loadRegistryConfig } from '../../src/config/registry/registry-config.ts';
import { parsed } from '../cli/parsed.ts';
import { needsCommand, skipIfMissing } from '../support/needs.ts';

const deploy = fileURLToPath(new URL('../../deploy/', import.meta.url));
const read = (path: string) => readFileSync(join(deploy, path), 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'spear-deploy-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const units = readdirSync(join(deploy, 'systemd'));

describe('the units of systemd', () => {
  skipIfMissing(needsCommand('systemd-analyze', 'apt-get install systemd'));
  it.each(units)('%s is taken by systemd-analyze, and leaves its process little [deploy.systemd]', (unit) => {
    const command = join(folder, 'command');
    writeFileSync(command, '#!/bin/sh\n');
    chmodSync(command, 0o755);
    const file = join(folder, unit);
    writeFileSync(
      file,
      read(`systemd/${unit}`).replaceAll(/\/opt\/spear\/node_modules\/\.bin\/(spear-sms|spearlet)\b/g, command),
    );
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' });
    expect(stderr.split('\n').filter((line) => line.includes(unit))).toEqual([]);
    expect(status).toBe(0);
    const security = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=60', file], {
      encoding: 'utf8',
    });
    expect(security.status, security.stdout.split('\n').slice(-4).join('\n')).toBe(0);
  });
});

describe('the compose file', () => {
  const compose = parse(read('compose/compose.yaml'), { merge: true }) as {
    readonly services: Readonly<Record<'sms' | 'node', Readonly<Record<string, unknown>>>>;
  };

  it('gives programs flags and configs that they take [deploy.compose]', async () => {
    const [program, ...flags] = compose.services.node.command as string[];
    expect(program).toBe('spearlet');
    expect(parsed(spearletProgram, flags)).toMatchObject({
      flags: { listen: '0.0.0.0:8090', sms: 'https://sms:50051' },
    });
    expect((await loadHostConfig({ file: join(deploy, 'compose/node.toml'), env: {} })).node.tls).not.toBeNull();
    const args = compose.services.sms.command as string[];
    const flag = (name: string) => args.find((arg) => arg.startsWith(`--${name}=`))?.split('=')[1];
    const sms = loadRegistryConfig({
      flags: {
        config: join(deploy, 'compose/sms.toml'),
        http: flag('http'),
        grpc: flag('grpc'),
        data: flag('data'),
        tlsCert: flag('tls-cert'),
        tlsKey: flag('tls-key'),
      },
      env: {},
    });
    expect(sms.allowedHosts).toEqual(['sms']);
  });

  it('publishes ports on loopback alone, and leaves its processes no rights [deploy.compose]', () => {
    for (const service of Object.values(compose.services)) {
      expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] });
      for (const port of service.ports as string[]) expect(port).toMatch(/^127\.0\.0\.1:/);
      expect(service.healthcheck).toBeDefined();
    }
  });
});

describe('the Dockerfile', () => {
  const lines = read('Dockerfile').split('\n');
  const stages = read('Dockerfile')
    .split(/^FROM /m)
    .slice(1);

  it('builds in one stage and runs in another, as a user of its own [deploy.image]', () => {
    expect(stages).toHaveLength(2);
    const [, last = ''] = stages;
    expect(last).toMatch(/^USER 10001:10001$/m);
    expect(last.indexOf('\nUSER')).toBeLessThan(last.indexOf('\nENTRYPOINT'));
    expect(last).toContain('COPY --from=build --chown=root:root');
    expect(lines.filter((line) => /^(ADD|MAINTAINER)\b/.test(line))).toEqual([]);
    expect(lines.find((line) => line.startsWith('ARG NODE_IMAGE'))).toMatch(/=node:\d+-\w+-slim$/);
  });

  it('says its commands as lists, so that signals reach them', () => {
    for (const line of lines.filter((one) => /^(ENTRYPOINT|CMD) /.test(one))) {
      expect(JSON.parse(line.slice(line.indexOf(' ')))).toBeInstanceOf(Array);
    }
  });
});
