import { type Client, Code, ConnectError, createClient, type Interceptor, type Transport } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import { certificateHint, errorCode } from '../base/errors.ts';
import { connectLocalSocket, SOCKET_SCHEME } from '../config/local-socket.ts';
import { type ReadToken, serverUrl } from '../config/registry/registry-endpoint.ts';
import { McpNodeService } from '../generated/proto/sms/mcp_node_pb.ts';
import { McpProfileService, type McpProfile as WireProfile } from '../generated/proto/sms/mcp_profile_pb.ts';
import { McpRegistryService } from '../generated/proto/sms/mcp_registry_pb.ts';
import type { McpServerRecord as WireRecord } from '../generated/proto/sms/mcp_server_record_pb.ts';
import { NodeRunService } from '../generated/proto/sms/node_runs_pb.ts';
import { type McpProfile, profileKind } from '../server/records/profile.ts';
import type { RegistryListing } from '../server/records/record-kind.ts';
import { type McpServerRecord, serverKind } from '../server/records/server.ts';
import type { StopRecord } from '../server/records/stop.ts';
import { wireToInput, wireToProfileInput } from '../server/records/wire.ts';
import type { NodeApprovals } from './approval-port.ts';
import type { IdentityPort } from './identity-port.ts';
import type { NodeReport, ProcessLoad, ReportAnswer, ReportTarget } from './node-report.ts';
import { RemoteApprovals } from './remote-approvals.ts';
import { RemoteIdentities } from './remote-identities.ts';
import { RemoteStops } from './remote-stops.ts';
import { RemoteTasks } from './remote-tasks.ts';
import type { RunReport, RunsAnswer, RunsReport } from './run-report.ts';
import { RegistryRefused, type RegistrySource, type RegistryWatchItem } from './source.ts';
import type { TaskPort } from './task-port.ts';
import { type OnInvalidRecord, WireRecords } from './wire-records.ts';

export interface RemoteSourceOptions {
  /** HOST:PORT (in clear on loopback, else TLS), `http://…` (in clear) or `https://…` of the registry's gRPC side. */
  readonly address: string;
  /** The socket of a registry of this user, which is called instead of the address. @default null */
  readonly socket?: string | null;
  /** The node's token, or how to find it, which is asked at every call. @default null, none is sent */
  readonly token?: string | ReadToken | null;
  /** Certificates to trust instead of the system's, as PEM text. @default null */
  readonly ca?: string | null;
  /** A record that this node cannot understand was left out. @default nothing */
  readonly onInvalidRecord?: OnInvalidRecord;
  /** The same of a profile. @default nothing */
  readonly onInvalidProfile?: OnInvalidRecord;
}

/** An SMS over the network: where records come from, and where reports go. */
export interface RemoteSource extends RegistrySource, ReportTarget {
  readonly profiles: RegistrySource<McpProfile>;
  /** Its active stops; on a connection of their own, so that a stop never waits behind a large list. */
  readonly stops: RegistrySource<StopRecord>;
  /** Its requests for approvals, as this node asks for them; on a connection of their own: many may wait for long. */
  approvals(nodeId: string): NodeApprovals;
  /** Its tasks; on a connection of their own: modules are large. */
  tasks(onInvalid: OnInvalidRecord): TaskPort;
  /** Its people, by their tokens. */
  readonly identities: IdentityPort;
  /** Ends the connection and every call on it. */
  close(): void;
}

/** A whole registry comes in one message. */
const MAX_MESSAGE_BYTES = 512 * 1024 * 1024;
/** A connection that died in silence is noticed after both of these together. */
const PING_INTERVAL_MS = 15_000;
const PING_TIMEOUT_MS = 5_000;

const refusals: ReadonlySet<Code> = new Set([Code.Unauthenticated, Code.PermissionDenied]);

export function createRemoteSource(options: RemoteSourceOptions): RemoteSource {
  return new GrpcSource(options);
}

class GrpcSource implements RemoteSource {
  readonly #url: string;
  /** For messages. */
  readonly #name: string;
  readonly #sessions: Http2SessionManager[] = [];
  readonly #connect: () => Transport;
  readonly #registry: Client<typeof McpRegistryService>;
  readonly #nodes: Client<typeof McpNodeService>;
  readonly #runs: Client<typeof NodeRunService>;
  readonly #records: WireRecords<WireRecord, McpServerRecord>;
  readonly profiles: RegistrySource<McpProfile>;
  readonly stops: RegistrySource<StopRecord>;
  readonly identities: IdentityPort;
  #canWatchRecords = false;

  constructor(options: RemoteSourceOptions) {
    const { address, socket = null, token = null, ca = null } = options;
    const { onInvalidRecord = () => {}, onInvalidProfile = () => {} } = options;
    this.#url = serverUrl(address, 'the address of the registry');
    this.#name = socket === null ? this.#url : SOCKET_SCHEME + socket;
    this.#connect = () => {
      const sessionManager = new Http2SessionManager(
        this.#url,
        { pingIntervalMs: PING_INTERVAL_MS, pingTimeoutMs: PING_TIMEOUT_MS },
        {
          ...(ca === null ? {} : { ca }),
          ...(socket === null ? {} : { createConnection: () => connectLocalSocket(socket) }),
        },
      );
      this.#sessions.push(sessionManager);
      return createGrpcTransport({
        baseUrl: this.#url,
        sessionManager,
        acceptCompression: [],
        readMaxBytes: MAX_MESSAGE_BYTES,
        interceptors: token === null ? [] : [bearer(typeof token === 'string' ? () => token : () => token()?.reveal())],
      });
    };
    const transport = this.#connect();
    this.#registry = createClient(McpRegistryService, transport);
    this.#nodes = createClient(McpNodeService, transport);
    this.#runs = createClient(NodeRunService, transport);
    this.#records = new WireRecords(
      { kind: serverKind, idOf: ({ serverId }) => serverId, input: wireToInput },
      onInvalidRecord,
    );
    this.profiles = new ProfileSource(createClient(McpProfileService, transport), onInvalidProfile, (error) =>
      this.#explain(error),
    );
    this.stops = new RemoteStops(this.#connect(), (error) => this.#explain(error));
    this.identities = new RemoteIdentities(transport, (error) => this.#explain(error));
  }

  get canWatchRecords(): boolean {
    return this.#canWatchRecords;
  }

  async list(signal: AbortSignal): Promise<RegistryListing<McpServerRecord>> {
    const response = await this.#registry
      .listMcpServers({}, { signal })
      .catch((error: unknown) => this.#explain(error));
    const { epoch } = response;
    // Only a registry that knows the fields of ours has an epoch, and such a one sends records with its events.
    this.#canWatchRecords = epoch !== '';
    const records = await this.#records.readAll(epoch, response.servers, signal);
    return { epoch, revision: Number(response.revision), records };
  }

  async *watch(since: number, signal: AbortSignal): AsyncGenerator<RegistryWatchItem> {
    const request = { sinceRevision: BigInt(since), includeRecords: true };
    try {
      for await (const { event } of this.#registry.watchMcpServers(request, { signal })) {
        if (event === undefined) continue;
        if (event.epoch !== '') this.#canWatchRecords = true;
        if (event.heartbeat) {
          yield { heartbeat: true, epoch: event.epoch, revision: Number(event.revision) };
          continue;
        }
        if (event.records.length < event.upserts.length) this.#canWatchRecords = false;
        yield await this.#records.readEvent(event, signal);
      }
    } catch (error) {
      this.#explain(error);
    }
  }

  async report(report: NodeReport, signal: AbortSignal): Promise<ReportAnswer> {
    const request = {
      nodeId: report.nodeId,
      registryState: report.registryState,
      epoch: report.epoch,
      snapshotRevision: BigInt(report.snapshotRevision),
      servers: report.servers.map(({ lastError, toolCount, ...server }) => ({
        ...server,
        lastError: lastError ?? '',
        ...(toolCount === null ? {} : { toolCount }),
      })),
      version: report.version ?? '',
      ...(report.load === undefined ? {} : { load: wireLoad(report.load) }),
      stopsEpoch: report.stopsEpoch ?? '',
      stopsRevision: BigInt(report.stopsRevision ?? 0),
      toolLists: (report.toolLists ?? []).map(({ hash, tools }) => ({ hash, tools: [...tools] })),
    };
    const response = await this.#nodes
      .reportMcpNode(request, { signal })
      .catch((error: unknown) => this.#explain(error));
    return { expiresAfterMs: response.expiresAfterMs, wantedToolLists: response.wantedToolLists };
  }

  async reportRuns({ nodeId, runs, timelines }: RunsReport, signal: AbortSignal): Promise<RunsAnswer> {
    const request = {
      nodeId,
      unchanged: runs === null,
      runs: (runs ?? []).map(wireRun),
      timelines: timelines.map(({ runId, picture, problem }) => ({ runId, picture: picture ?? '', problem })),
    };
    const { wantedTimelines, wantsRuns } = await this.#runs
      .reportRuns(request, { signal })
      .catch((error: unknown) => this.#explain(error));
    return { wantedTimelines, wantsRuns };
  }

  approvals(nodeId: string): NodeApprovals {
    return new RemoteApprovals(this.#connect(), nodeId);
  }

  tasks(onInvalid: OnInvalidRecord): TaskPort {
    return new RemoteTasks(this.#connect(), onInvalid, (error) => this.#explain(error));
  }

  close(): void {
    for (const session of this.#sessions) session.abort();
  }

  #explain(error: unknown): never {
    if (!(error instanceof ConnectError)) throw error;
    const hint = /wrong version number|packet length too long/i.test(error.rawMessage)
      ? 'the server does not seem to use TLS; to connect without TLS, use http://HOST:PORT'
      : certificateHint(errorCode(error.cause), 'spear-sms', '--sms-ca');
    const text = `the registry at ${this.#name}: ${error.message}${hint === null ? '' : `; ${hint}`}`;
    if (refusals.has(error.code)) throw new RegistryRefused(text, { cause: error });
    throw new Error(text, { cause: error });
  }
}

/** Only a registry of this project has profiles, so events always carry their records. */
class ProfileSource implements RegistrySource<McpProfile> {
  readonly canWatchRecords = true;
  readonly #client: Client<typeof McpProfileService>;
  readonly #records: WireRecords<WireProfile, McpProfile>;
  readonly #explain: (error: unknown) => never;

  constructor(
    client: Client<typeof McpProfileService>,
    onInvalid: OnInvalidRecord,
    explain: (error: unknown) => never,
  ) {
    this.#client = client;
    this.#records = new WireRecords(
      { kind: profileKind, idOf: ({ name }) => name, input: wireToProfileInput },
      onInvalid,
    );
    this.#explain = explain;
  }

  async list(signal: AbortSignal): Promise<RegistryListing<McpProfile>> {
    const response = await this.#client.listMcpProfiles({}, { signal }).catch(this.#explain);
    const records = await this.#records.readAll(response.epoch, response.profiles, signal);
    return { epoch: response.epoch, revision: Number(response.revision), records };
  }

  async *watch(since: number, signal: AbortSignal): AsyncGenerator<RegistryWatchItem<McpProfile>> {
    try {
      for await (const { event } of this.#client.watchMcpProfiles({ sinceRevision: BigInt(since) }, { signal })) {
        if (event === undefined) continue;
        if (event.heartbeat) yield { heartbeat: true, epoch: event.epoch, revision: Number(event.revision) };
        else yield await this.#records.readEvent(event, signal);
      }
    } catch (error) {
      this.#explain(error);
    }
  }
}

const wireLoad = ({ memoryBytes, upMs, ...load }: ProcessLoad) => ({
  ...load,
  memoryBytes: BigInt(memoryBytes),
  upMs: BigInt(upMs),
});

function bearer(read: () => string | undefined): Interceptor {
  return (next) => (request) => {
    const token = read();
    if (token !== undefined) request.header.set('authorization', `Bearer ${token}`);
    return next(request);
  };
}

function wireRun({ submitted_by, submitted_at_ms, started_at_ms, ended_at_ms, exit, cost, ...rest }: RunReport) {
  const { status_reason: statusReason, degraded, ...run } = rest;
  return {
    ...run,
    statusReason: statusReason ?? '',
    degraded: [...(degraded ?? [])],
    submittedBy: submitted_by,
    submittedAtMs: BigInt(submitted_at_ms),
    ...(started_at_ms === null ? {} : { startedAtMs: BigInt(started_at_ms) }),
    ...(ended_at_ms === null ? {} : { endedAtMs: BigInt(ended_at_ms) }),
    exitReason: exit?.reason ?? '',
    ...(exit?.code == null ? {} : { exitCode: exit.code }),
    exitMessage: exit?.message ?? '',
    ...(cost === null ? {} : { cost: wireCost(cost) }),
  };
}

function wireCost({ model_calls, tool_calls, total_tokens }: NonNullable<RunReport['cost']>) {
  return { modelCalls: model_calls, toolCalls: tool_calls, totalTokens: BigInt(Math.round(total_tokens)) };
}
