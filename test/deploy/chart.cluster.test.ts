import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { findEngine } from '../../scripts/engines/bring.ts';
import { helm as helmEngine } from '../../scripts/engines/helm.ts';
import { smsProgram } from '../../src/cli/sms/table.ts';
import { spearletProgram } from '../../src/cli/spearlet/table.ts';
import { loadHostConfig } from '../../src/config/host/host-config.ts';
import { loadRegistryConfig } from '../../src/config/registry/registry-config.ts';
import { parsed } from '../cli/parsed.ts';
import { needsEngine, skipIfMissing } from '../support/needs.ts';

const chart = fileURLToPath(new URL('../../deploy/helm/spear', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'spear-chart-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** As far as it is looked at. */
interface Made {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec: {
    readonly clusterIP?: string;
    readonly ingress?: readonly unknown[];
    readonly template: {
      readonly spec: {
        readonly containers: readonly [{ readonly args: readonly string[] }];
        readonly volumes: readonly unknown[];
      };
    };
  };
}

function helm(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(findEngine(helmEngine), args, {
    encoding: 'utf8',
    env: { HOME: folder },
  });
  return { status, stdout, stderr };
}

function render(...values: string[]): Made[] {
  const sets = values.flatMap((value) => ['--set', value]);
  const { status, stdout, stderr } = helm('template', 'demo', chart, '--namespace', 'team', ...sets);
  expect(status, stderr).toBe(0);
  return parseAllDocuments(stdout).flatMap((document) => {
    expect(document.errors).toEqual([]);
    return (document.toJS() as Made | null) ?? [];
  });
}

const named = (made: readonly Made[], kind: string, name: string) => {
  const one = made.find((object) => object.kind === kind && object.metadata.name === name);
  if (one === undefined) throw new Error(`there is no ${kind} ${name}`);
  return one;
};
const container = (made: readonly Made[], name: string) =>
  named(made, 'StatefulSet', name).spec.template.spec.containers[0];

describe('the Helm chart', () => {
  skipIfMissing(needsEngine(helmEngine));

  it('is taken by helm lint [deploy.chart]', () => {
    const { status, stdout } = helm('lint', '--strict', chart);
    expect(status, stdout).toBe(0);
  });

  it('gives programs flags and configs that they take [deploy.chart]', async () => {
    const made = render('node.tasksConfigMap=tasks', 'node.allowedHosts={runs.example.org}');
    const sms = join(folder, 'sms.toml');
    writeFileSync(sms, named(made, 'ConfigMap', 'demo-spear-sms').data?.['sms.toml'] ?? '');
    const args: readonly string[] = container(made, 'demo-spear-sms').args;
    const flag = (name: string) => args.find((arg) => arg.startsWith(`--${name}=`))?.split('=')[1];
    const { http, tls, allowedHosts, files } = loadRegistryConfig({
      flags: {
        config: sms,
        http: flag('http'),
        grpc: flag('grpc'),
        tlsCert: flag('tls-cert'),
        tlsKey: flag('tls-key'),
      },
      env: { HOME: folder },
    });
    expect({ http, tls, node: files.nodeToken }).toEqual({
      http: { host: '0.0.0.0', port: 8080 },
      tls: { cert: '/tls/tls.crt', key: '/tls/tls.key' },
      node: '/tokens/node.token',
    });
    expect(allowedHosts).toContain('demo-spear-sms.team.svc');
    const node = join(folder, 'node.toml');
    writeFileSync(node, named(made, 'ConfigMap', 'demo-spear-node').data?.['node.toml'] ?? '');
    const host = await loadHostConfig({ file: node, env: { HOME: folder } });
    expect(host.node.tls).toEqual({ cert: '/tls/tls.crt', key: '/tls/tls.key' });
    expect(host.node.allowedHosts).toEqual(
      expect.arrayContaining(['demo-spear-node-1.demo-spear-node.team.svc', 'runs.example.org']),
    );
    const [command, ...flags] = container(made, 'demo-spear-node').args;
    expect(command).toBe('spearlet');
    expect(parsed(spearletProgram, flags)).toMatchObject({
      flags: { slots: 256, sms: 'https://demo-spear-sms:50051', taskDir: '/tasks' },
    });
  });

  it('runs everything as a user without rights, with probes, and lets in and out what is named [deploy.chart]', () => {
    const made = render();
    for (const name of ['demo-spear-sms', 'demo-spear-node']) {
      const { spec } = named(made, 'StatefulSet', name).spec.template;
      expect(spec).toMatchObject({
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true, runAsUser: 10_001 },
      });
      expect(spec.containers[0]).toMatchObject({
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        },
        livenessProbe: { httpGet: { path: '/healthz', scheme: 'HTTPS' } },
        readinessProbe: { httpGet: { path: '/readyz', scheme: 'HTTPS' } },
      });
    }
    const policy = named(made, 'NetworkPolicy', 'demo-spear').spec;
    expect(policy).toMatchObject({ policyTypes: ['Ingress', 'Egress'] });
    expect(policy.ingress).toHaveLength(1);
    const volumes = named(made, 'StatefulSet', 'demo-spear-node').spec.template.spec.volumes;
    expect(JSON.stringify(volumes)).not.toContain('admin.token');
  });

  it('takes etcd and NATS by values, and no second registry without a store [deploy.chart]', () => {
    const made = render('sms.replicas=2', 'sms.store=etcd://etcd:2379', 'node.queue=nats://nats:4222');
    expect(container(made, 'demo-spear-sms').args).toContain('--store=etcd://etcd:2379');
    expect(container(made, 'demo-spear-node').args).toContain('--queue=nats://nats:4222');
    expect(named(made, 'Service', 'demo-spear-node').spec.clusterIP).toBeUndefined();
    expect(named(made, 'PodDisruptionBudget', 'demo-spear-sms').spec).toMatchObject({ maxUnavailable: 1 });
    const { status, stderr } = helm('template', 'demo', chart, '--set', 'sms.replicas=2');
    expect(status).not.toBe(0);
    expect(stderr).toContain('more than one registry needs sms.store');
  });

  it('lets the registry take runs from the queue of the nodes, with credentials of a volume [deploy.chart]', () => {
    const made = render(
      'sms.queue=tls://nats:4222',
      'node.queue=tls://nats:4222',
      'sms.extraVolumes[0].name=nats',
      'sms.extraVolumes[0].secret.secretName=nats-creds',
      'sms.extraVolumeMounts[0].name=nats',
      'sms.extraVolumeMounts[0].mountPath=/nats',
      'sms.env[0].name=A',
      'sms.env[0].value=b',
    );
    const { args } = container(made, 'demo-spear-sms');
    expect(parsed(smsProgram, args.slice(1))).toMatchObject({ path: 'spear-sms', flags: { queue: 'tls://nats:4222' } });
    const { spec } = named(made, 'StatefulSet', 'demo-spear-sms').spec.template;
    expect(spec.volumes).toContainEqual({ name: 'nats', secret: { secretName: 'nats-creds' } });
    expect(spec.containers[0]).toMatchObject({
      env: [{ name: 'A', value: 'b' }],
      volumeMounts: expect.arrayContaining([{ name: 'nats', mountPath: '/nats' }]),
    });
    const { status, stderr } = helm('template', 'demo', chart, '--set', 'sms.queue=nats://a:1,node.queue=nats://b:1');
    expect(status).not.toBe(0);
    expect(stderr).toContain('node.queue must be the same');
  });
});
