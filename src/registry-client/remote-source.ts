/**
 * gRPC client of a registry: records of all kinds, reports, tasks, approvals and identities.
 *
 * Invariants
 * - The token is read for every call, so that a rotated token works without a reconnect.
 * - Errors name the registry. UNAUTHENTICATED and PERMISSION_DENIED become RegistryRefused.
 * - `close` aborts every connection and every call.
 *
 * Several registries are combined in failover.ts; retries are the caller's decision.
 */
import { type Client, Code, ConnectError, createClient, type Interceptor, type Transport } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import { certificateHint, errorCode } from '../base/errors.ts';
import { connectLocalSocket, SOCKET_SCHEME } from '../config/local-socket.ts';
import { type ReadToken, serverUrl } from '../config/registry/registry-endpoint.ts';
import { McpNodeService } from '../generated/proto/sms/mcp_node_pb.ts';
import { McpProfileService } from '../generated/proto/sms/mcp_profile_pb.ts';
import { McpRegistryService } from '../generated/proto/sms/mcp_registry_pb.ts';
import { NodeRunService } from '../generated/proto/sms/node_runs_pb.ts';
import type { McpProfile } from '../server/records/profile.ts';
import type { RegistryListing } from '../server/records/record-kind.ts';
import type { McpServerRecord } from '../server/records/server.ts';
import type { StopRecord } from '../server/records/stop.ts';
import { wireKinds } from '../server/records/wire.ts';
import type {
  NodeReport,
  ProcessLoad,
  ReportAnswer,
  ReportTarget,
  RunReport,
  RunsAnswer,
  RunsReport,
} from './node-report.ts';
import type { IdentityPort, NodeApprovals, OnInvalidRecord, TaskPort } from './ports.ts';
import { type ExplainError, RemoteRecords, RemoteTasks, remoteStops } from './remote-records.ts';
import { RemoteApprovals, RemoteIdentities } from './remote-services.ts';
import { RegistryRefused, type RegistrySource, type RegistryWatchItem } from './source.ts';

export interface RemoteSourceOptions {
  /** HOST:PORT (in clear on loopback, else TLS), `http://…` (in clear) or `https://…` of the registry's gRPC side. */
  readonly address: string;
  /** Local socket of this user's registry, used instead of the address. @default null */
  readonly socket?: string | null;
  /** The node's token, or a function that reads it for every call. @default null, no token is sent */
  readonly token?: string | ReadToken | null;
  /** Certificates to trust instead of the system's, as PEM text. @default null */
  readonly ca?: string | null;
  /** A server that this node cannot parse was left out. @default none */
  readonly onInvalidRecord?: OnInvalidRecord;
  /** The same for a profile. @default none */
  readonly onInvalidProfile?: OnInvalidRecord;
}

/** A registry over the network: source of records, target of reports. */
export interface RemoteSource extends RegistrySource, ReportTarget {
  readonly profiles: RegistrySource<McpProfile>;
  /** Active stops, on a separate connection, so that a stop never waits behind a large list. */
  readonly stops: RegistrySource<StopRecord>;
  /** Approvals, on a separate connection, because many requests may wait for a long time. */
  approvals(nodeId: string): NodeApprovals;
  /** Tasks, on a separate connection, because modules are large. */
  tasks(onInvalid: OnInvalidRecord): TaskPort;
  /** Identities, by their tokens. */
  readonly identities: IdentityPort;
  /** Ends the connection and every call on it. */
  close(): void;
}

/** A list is one message with the whole registry. */
const MAX_MESSAGE_BYTES = 512 * 1024 * 1024;
/** A dead connection is detected after the sum of both. */
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
  readonly #nodes: Client<typeof McpNodeService>;
  readonly #runs: Client<typeof NodeRunService>;
  readonly #servers: RegistrySource;
  readonly profiles: RegistrySource<McpProfile>;
  readonly stops: RegistrySource<StopRecord>;
  readonly identities: IdentityPort;

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
    this.#nodes = createClient(McpNodeService, transport);
    this.#runs = createClient(NodeRunService, transport);
    const explain = (error: unknown) => this.#explain(error);
    this.#servers = serverRecords(createClient(McpRegistryService, transport), explain, onInvalidRecord);
    this.profiles = profileRecords(createClient(McpProfileService, transport), explain, onInvalidProfile);
    this.stops = remoteStops(this.#connect(), explain);
    this.identities = new RemoteIdentities(transport, explain);
  }

  get canWatchRecords(): boolean {
    return this.#servers.canWatchRecords;
  }

  list(signal: AbortSignal): Promise<RegistryListing<McpServerRecord>> {
    return this.#servers.list(signal);
  }

  watch(since: number, signal: AbortSignal): AsyncIterable<RegistryWatchItem> {
    return this.#servers.watch(since, signal);
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

function serverRecords(
  client: Client<typeof McpRegistryService>,
  explain: ExplainError,
  onInvalid: OnInvalidRecord,
): RegistrySource {
  const calls = {
    async list(signal: AbortSignal) {
      const { epoch, revision, servers } = await client.listMcpServers({}, { signal });
      return { epoch, revision, records: servers };
    },
    watch: (sinceRevision: bigint, signal: AbortSignal) =>
      client.watchMcpServers({ sinceRevision, includeRecords: true }, { signal }),
  };
  return new RemoteRecords(wireKinds.servers, calls, explain, onInvalid);
}

function profileRecords(
  client: Client<typeof McpProfileService>,
  explain: ExplainError,
  onInvalid: OnInvalidRecord,
): RegistrySource<McpProfile> {
  const calls = {
    async list(signal: AbortSignal) {
      const { epoch, revision, profiles } = await client.listMcpProfiles({}, { signal });
      return { epoch, revision, records: profiles };
    },
    watch: (sinceRevision: bigint, signal: AbortSignal) => client.watchMcpProfiles({ sinceRevision }, { signal }),
  };
  return new RemoteRecords(wireKinds.profiles, calls, explain, onInvalid);
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
