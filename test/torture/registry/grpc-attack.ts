import { readdirSync } from 'node:fs';
import { type ClientHttp2Session, connect, constants } from 'node:http2';
import type { DescMethod } from '@bufbuild/protobuf';
import { createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { Health } from '../../../src/generated/proto/grpc/health/v1/health_pb.ts';
import { ApprovalService } from '../../../src/generated/proto/sms/approval_pb.ts';
import { IdentityService } from '../../../src/generated/proto/sms/identity_pb.ts';
import { McpNodeService } from '../../../src/generated/proto/sms/mcp_node_pb.ts';
import { McpProfileService } from '../../../src/generated/proto/sms/mcp_profile_pb.ts';
import { McpRegistryService } from '../../../src/generated/proto/sms/mcp_registry_pb.ts';
import { NodeRunService } from '../../../src/generated/proto/sms/node_runs_pb.ts';
import { TaskService } from '../../../src/generated/proto/sms/task_pb.ts';
import { TaskRecordService } from '../../../src/generated/proto/sms/task_records_pb.ts';
import { methodNeeds } from '../../../src/registry/grpc/services.ts';
import { refusal } from '../../../src/server/identity/identity.ts';
import { type Role, roles } from '../../../src/server/records/permissions.ts';
import { fsRecord, startTestSms, stopAll, type TestSms } from '../../registry/running-sms.ts';
import { applyTask, hello, helloSha256, putBlob } from '../../registry/tasks/task-calls.ts';
import { createToken } from '../../server/identity/token-calls.ts';
import { eventually } from '../../support/eventually.ts';
import { type Effort, Failures, type Finding } from '../topic.ts';
import { randomEnvelopes, randomMessage } from './grpc/random-message.ts';

/** In everything that belongs to the namespace team-b. */
const CANARY = 'canary-of-team-b';
const MAX_ANSWER_BYTES = 1024 * 1024;
const ANSWER_MS = 20_000;
const CALLS_PER_CONNECTION = 100;
/** A watch without events says nothing. */
const SILENT_MS = 50;
const OPEN = { status: 'open', message: '' };
const [UNKNOWN, INTERNAL, UNAUTHENTICATED, PERMISSION_DENIED] = ['2', '13', '16', '7'];

interface Caller {
  readonly name: string;
  readonly role: Role | null;
  readonly namespace: string;
  readonly token: string | null;
}

interface Answer {
  /** The gRPC status; `open`: a stream that was cancelled after its first bytes; otherwise how it failed. */
  readonly status: string;
  readonly message: string;
  readonly body: Buffer;
}

const services = [
  ...[McpRegistryService, McpProfileService, McpNodeService, NodeRunService, ApprovalService],
  ...[TaskService, TaskRecordService, IdentityService, Health],
];
const methods: readonly DescMethod[] = services.flatMap((service) => service.methods);

/**
 * Every gRPC method of a registry, called by every role of one namespace and of all, and without a token, with hostile
 * messages, envelopes and cancelled streams. Callers of team-a neither read nor change what belongs to team-b.
 */
export async function grpcAttack(effort: Effort): Promise<Finding> {
  const failures = new Failures();
  try {
    const scene = await Scene.open(failures);
    const before = await scene.stateOfB();
    // Callers that have no right to what belongs to team-b come first: nothing of it may change.
    const limited = scene.callers.filter((caller) => !mayChangeB(caller));
    await scene.probe(limited, effort, effort.of(2, 60));
    const after = await scene.stateOfB();
    if (after !== before) failures.add(`what belongs to team-b changed from ${before} to ${after}`);
    const cancelled = await scene.cancelStreams(effort.of(200, 2_000));
    await scene.probe(scene.callers, effort, effort.of(1, 30));
    await scene.check();
    return {
      what: 'every gRPC method by every role, with hostile messages',
      count: scene.probes,
      lost: failures.count,
      crashed: 0,
      measured: `${methods.length} methods × ${scene.callers.length} callers, ${cancelled} streams cancelled`,
      failures: failures.list(),
    };
  } finally {
    await stopAll();
  }
}

function mayCall(method: DescMethod, { name, role, namespace }: Caller): boolean {
  const need = methodNeeds.get(pathOf(method));
  if (need === undefined) throw new Error(`${pathOf(method)} has no need`);
  if (need.needs === 'anybody') return true;
  if (role === null) return false;
  return refusal({ name, roles: [role], namespace, mayReadJournals: false, expiresAtMs: null }, need) === null;
}

function mayChangeB({ role, namespace }: Caller): boolean {
  return namespace === '*' && (role === 'node' || role === 'operator' || role === 'admin');
}

class Scene {
  readonly callers: Caller[] = [];
  readonly #sms: TestSms;
  readonly #failures: Failures;
  readonly #known: readonly string[];
  #session: ClientHttp2Session | null = null;
  #calls = 0;
  probes = 0;

  private constructor(sms: TestSms, failures: Failures, known: readonly string[]) {
    this.#sms = sms;
    this.#failures = failures;
    this.#known = known;
  }

  static async open(failures: Failures): Promise<Scene> {
    const sms = await startTestSms({
      limit: { heartbeat_ms: 100, anonymous_calls_per_second: 100_000, node_expiry_ms: 3_600_000 },
    });
    await sms.http('POST', '/admin/api/mcp/servers', { json: fsRecord });
    await putBlob(sms, hello);
    for (const namespace of ['team-a', 'team-b']) {
      await applyTask(sms, { name: `of-${namespace}`, namespace, env: { NOTE: `canary-of-${namespace}` } });
    }
    const report = { id: 'r-of-b', namespace: 'team-b', task: 'of-team-b', revision: 1, status: 'running' as const };
    const times = { submitted_at_ms: 1, started_at_ms: 2, ended_at_ms: null, attempts: 1, exit: null, cost: null };
    const more = { submitted_by: CANARY, status_reason: null, degraded: null };
    const { signal } = new AbortController();
    await sms
      .source()
      .reportRuns({ nodeId: 'machine-b:1', runs: [{ ...report, ...times, ...more }], timelines: [] }, signal);
    const opened = await openApproval(sms);
    const known = [
      ...['team-a', 'team-b', 'team-b/of-team-b', 'team-a/of-team-a', 'of-team-b', 'r-of-b', 'machine-b:1', 'fs'],
      ...[helloSha256, `sha256:${helloSha256}`, opened],
    ];
    const scene = new Scene(sms, failures, known);
    for (const role of roles) {
      for (const namespace of ['team-a', '*']) {
        const name = `${role}-${namespace === '*' ? 'of-all' : namespace}`;
        scene.callers.push({
          name,
          role,
          namespace,
          token: await createToken(sms, { name, roles: [role], namespace }),
        });
      }
    }
    scene.callers.push({ name: 'without token', role: null, namespace: '', token: null });
    scene.callers.push({ name: 'false token', role: null, namespace: '', token: `spr_${'0'.repeat(64)}` });
    return scene;
  }

  /** Everything of team-b, as an admin of all namespaces reads it. */
  async stateOfB(): Promise<string> {
    const paths = ['/admin/api/tasks', '/admin/api/approvals', '/admin/api/runs?namespace=team-b'];
    const read = await Promise.all(paths.map((path) => this.#sms.http('GET', path)));
    const lists = read.flatMap(({ body }) => Object.values(body).filter(Array.isArray) as unknown[][]);
    return JSON.stringify(
      lists.map((list) =>
        list.filter((one) => JSON.stringify(one).includes('team-b')).map((one) => ({ ...(one as object), left_ms: 0 })),
      ),
    );
  }

  async probe(callers: readonly Caller[], effort: Effort, times: number): Promise<void> {
    const { random } = effort;
    for (const method of methods) {
      for (const caller of callers) {
        for (let left = times; left > 0 && !effort.isOver(); left--) {
          const message = randomMessage(method.input, random, this.#known);
          const answer = await this.#call(method, caller, randomEnvelopes(message, random));
          this.#judge(method, caller, answer);
        }
      }
      effort.progress(methods.indexOf(method), methods.length);
    }
  }

  #judge(method: DescMethod, caller: Caller, { status, message, body }: Answer): void {
    const { name, role, namespace } = caller;
    const path = pathOf(method);
    const may = mayCall(method, caller);
    const wrong = (what: string) => this.#failures.add(`${path} by ${name}: ${what}`);
    const denied = role === null ? UNAUTHENTICATED : PERMISSION_DENIED;
    if (!may && status !== denied) wrong(`status ${status} instead of ${denied}`);
    // The library answers so to bytes that are not of the message.
    const isMalformed = status === INTERNAL && /^(?:parse binary|received compressed envelope)/.test(message);
    const isWrong = [INTERNAL, UNKNOWN, 'late', 'broken'].includes(status) && !isMalformed;
    if (isWrong) wrong(`status ${status} ${message}`);
    if (namespace !== '*' && body.includes(CANARY)) wrong('the answer has data of team-b');
    if (({} as Record<string, unknown>).polluted !== undefined)
      throw new Error(`${path}: Object.prototype has a new key`);
  }

  /** Streams that are cancelled before, while and after they begin. Returns how many. */
  async cancelStreams(times: number): Promise<number> {
    const node = this.callers.find(({ role, namespace }) => role === 'node' && namespace === '*');
    const streams = methods.filter(({ methodKind }) => methodKind === 'server_streaming');
    const descriptors = openDescriptors();
    const idle = await this.#watchers();
    let cancelled = 0;
    for (let round = 0; round < times; round++) {
      const method = streams[round % streams.length] as DescMethod;
      const stream = this.#connection().request(headersOf(method, node?.token ?? null));
      stream.on('error', () => {});
      const bytes =
        method.name === 'ReadTaskModule' ? Buffer.concat([Buffer.of(10, 64), Buffer.from(helloSha256)]) : Buffer.of();
      const gone = new Promise((resolve) => stream.once('close', resolve));
      stream.end(Buffer.concat([Buffer.of(0, 0, 0, 0, bytes.length), bytes]));
      if (round % 3 === 0) stream.close(constants.NGHTTP2_CANCEL);
      else if (round % 3 === 1) setImmediate(() => stream.close(constants.NGHTTP2_CANCEL));
      else stream.once('response', () => stream.close(constants.NGHTTP2_CANCEL));
      await gone;
      cancelled++;
    }
    const settled = async () => (await this.#watchers()) === idle && openDescriptors() <= descriptors + 8;
    await eventually(settled, 'all watches to end').catch(async () => {
      this.#failures.add(`${(await this.#watchers()) - idle} watches are left of streams that were cancelled`);
    });
    return cancelled;
  }

  async #watchers(): Promise<number> {
    const { text } = await this.#sms.http('GET', '/metrics');
    return Number(/^spear_sms_watchers (\d+)/m.exec(text)?.[1]);
  }

  /** The registry still works, and nothing was logged as its own failure. */
  async check(): Promise<void> {
    for (const line of this.#sms.logged) {
      if (line.startsWith('error') || line.includes('grpc_broken')) this.#failures.add(line.slice(0, 300));
    }
    const pages = ['mcp/servers', 'mcp/profiles', 'mcp/nodes', 'runs', 'tasks', 'approvals', 'overview', 'tokens'];
    for (const page of pages) {
      const { status } = await this.#sms.http('GET', `/admin/api/${page}`);
      if (status !== 200) this.#failures.add(`GET /admin/api/${page} is ${status} afterwards`);
    }
    const { status } = await this.#call(McpRegistryService.method.listMcpServers, this.#admin(), Buffer.alloc(5));
    if (status !== '0') this.#failures.add(`ListMcpServers is ${status} afterwards`);
  }

  #admin(): Caller {
    return { name: 'admin', role: 'admin', namespace: '*', token: this.#sms.adminToken };
  }

  /** A registry closes a connection whose streams are reset again and again, so each serves only so many. */
  #connection(): ClientHttp2Session {
    const isWorn = this.#calls++ % CALLS_PER_CONNECTION === 0;
    if (isWorn || this.#session === null || this.#session.closed || this.#session.destroyed) {
      this.#session?.close();
      this.#session = connect(`http://${this.#sms.sms.grpc}`, { maxSessionMemory: 1000 });
      this.#session.on('error', () => {});
    }
    return this.#session;
  }

  #call(method: DescMethod, caller: Caller, bytes: Buffer): Promise<Answer> {
    this.probes++;
    return new Promise((resolve) => {
      const stream = this.#connection().request(headersOf(method, caller.token));
      const body: Buffer[] = [];
      const isWatch = method.name.startsWith('Watch');
      let ended = { status: 'broken', message: '' };
      const settle = ({ status, message }: typeof ended) => {
        clearTimeout(timer);
        resolve({ status, message, body: Buffer.concat(body) });
        stream.close(constants.NGHTTP2_CANCEL);
      };
      const heard = (fields: Readonly<Record<string, unknown>>) => {
        ended = { status: String(fields['grpc-status']), message: String(fields['grpc-message']) };
      };
      const timer = setTimeout(() => settle({ status: 'late', message: '' }), ANSWER_MS);
      stream.on('response', (fields) => {
        if (fields['grpc-status'] !== undefined) {
          heard(fields);
          settle(ended);
        } else if (isWatch && mayCall(method, caller)) setTimeout(() => settle(OPEN), SILENT_MS);
      });
      stream.on('data', (chunk: Buffer) => {
        body.push(chunk);
        if (isWatch || Buffer.concat(body).length > MAX_ANSWER_BYTES) settle(OPEN);
      });
      stream.on('trailers', (fields) => {
        heard(fields);
        settle(ended);
      });
      stream.on('error', () => {});
      stream.on('close', () => settle(ended));
      stream.end(bytes);
    });
  }
}

/** A request of team-b; its id. */
async function openApproval(sms: TestSms): Promise<string> {
  const transport = createGrpcTransport({ baseUrl: `http://${sms.sms.grpc}` });
  const client = createClient(ApprovalService, transport);
  const call = { run: 'r-of-b', ordinal: '1', serverId: 'fs', kind: 'tool', toolName: CANARY };
  const request = { call, namespace: 'team-b', argumentsJson: '{}', definitionJson: '{}', causeText: CANARY };
  const headers = { authorization: `Bearer ${sms.nodeToken}` };
  const { approval } = await client.openApproval(request, { headers });
  if (approval === undefined) throw new Error('no approval was opened');
  return approval.approvalId;
}

function pathOf(method: DescMethod): string {
  return `${method.parent.typeName}/${method.name}`;
}

function headersOf(method: DescMethod, token: string | null): Record<string, string> {
  return {
    ':method': 'POST',
    ':path': `/${pathOf(method)}`,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
  };
}

function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}
