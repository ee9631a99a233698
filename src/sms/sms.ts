import { Code, ConnectError } from '@connectrpc/connect';
import type { SmsConfig } from '../config/sms/sms-config.ts';
import { egressOf } from '../pool/egress.ts';
import { Health } from '../protocol/generated/grpc/health/v1/health_pb.ts';
import { McpNodeService } from '../protocol/generated/sms/mcp_node_pb.ts';
import { McpRegistryService } from '../protocol/generated/sms/mcp_registry_pb.ts';
import type { Role } from './access.ts';
import { type Credentials, openCredentials } from './credentials.ts';
import type { DirectoryResult } from './directory.ts';
import { CallLimits } from './grpc/call-limits.ts';
import { grpcListener } from './grpc/grpc-listener.ts';
import { healthService } from './grpc/health-service.ts';
import { nodeService } from './grpc/node-service.ts';
import { registryService } from './grpc/registry-service.ts';
import { HeldBytes } from './held-bytes.ts';
import { backupRoute } from './http/backup-route.ts';
import { eventsRoute } from './http/events-route.ts';
import { httpListener } from './http/http-listener.ts';
import { importRoute } from './http/import-route.ts';
import { operationRoutes } from './http/operation-routes.ts';
import { serversRoutes } from './http/servers-routes.ts';
import { testRoute } from './http/test-route.ts';
import { openListeners } from './listeners.ts';
import { SmsMetrics } from './metrics/sms-metrics.ts';
import { defaultReportLimits, NodeReports } from './node-reports.ts';
import { DirectoryReloader } from './reload.ts';
import type { ServerTestOptions } from './server-test.ts';
import type { ServiceLog } from './service-log.ts';
import { ServingState } from './serving-state.ts';
import { openSqliteStore, type SqliteStore } from './store/sqlite-store.ts';
import { StoreError } from './store/store.ts';
import { auditedStore } from './trail/audited-store.ts';
import { noTrail, openSmsTrail, type SmsTrail } from './trail/sms-trail.ts';

export interface SmsDeps {
  readonly log: ServiceLog;
  /** Only used where the config allows testing servers here. */
  readonly serverTest: Pick<ServerTestOptions, 'stateDir' | 'path' | 'secrets'>;
}

export interface RunningSms {
  /** `HOST:PORT`. */
  readonly grpc: string;
  /** With scheme. */
  readonly http: string;
  /** Reads the tokens, the certificate and the directory again. Null: there is no directory. */
  reload(): Promise<DirectoryResult | null>;
  /** Ends within the configured time, whatever clients do. */
  close(): Promise<void>;
}

/** The directory is not what a strict start accepts. */
export class DirectoryRefused extends Error {
  constructor(refusal: string) {
    super(refusal);
    this.name = 'DirectoryRefused';
  }
}

/** The roles by method. What is not listed needs the admin. */
const grpcRoles: ReadonlyMap<string, Role | 'anybody'> = new Map([
  [`${McpRegistryService.typeName}/ListMcpServers`, 'node'],
  [`${McpRegistryService.typeName}/WatchMcpServers`, 'node'],
  [`${McpNodeService.typeName}/ReportMcpNode`, 'node'],
  [`${Health.typeName}/Check`, 'anybody'],
  [`${Health.typeName}/Watch`, 'anybody'],
] as const);

/** Opens the store, loads the directory, and serves both protocols. */
export async function startSms(config: SmsConfig, deps: SmsDeps): Promise<RunningSms> {
  const store = openSqliteStore(config.files.data, {
    keptChanges: config.limits.kept_changes,
    watcherQueue: config.limits.watcher_queue,
    maxBytes: config.limits.max_bytes,
  });
  let trail = noTrail;
  try {
    trail = openSmsTrail(config.audit, deps.log);
    return await serve(config, deps, store, openCredentials(config, deps.log), trail);
  } catch (error) {
    await store.close();
    await trail.close();
    throw error;
  }
}

async function serve(
  config: SmsConfig,
  { log, serverTest }: SmsDeps,
  sqlite: SqliteStore,
  credentials: Credentials,
  trail: SmsTrail,
): Promise<RunningSms> {
  const store = auditedStore(sqlite, trail);
  const { limits, strict } = config;
  const egress = egressOf(config.egress, 'listed');
  const metrics = new SmsMetrics(Date.now());
  const serving = new ServingState();
  const shutdown = new AbortController();
  const reports = new NodeReports({
    ...defaultReportLimits,
    expiresAfterMs: limits.node_expiry_ms,
    maxNodes: limits.max_nodes,
  });
  const reloader =
    config.registryDir === null
      ? null
      : new DirectoryReloader({
          store,
          directory: config.registryDir,
          strict,
          allowMassRemoval: config.allowMassRemoval,
          metrics,
          trail,
          log,
        });
  for (const problem of sqlite.warnings) log('error', 'store', { problem });
  if (reloader !== null) await firstLoad(reloader, config, log);

  const held = new HeldBytes({ max: limits.max_answer_bytes, maxPerPeer: limits.max_answer_bytes_per_peer });
  const calls = new CallLimits({
    max: limits.max_calls,
    maxPerPeer: limits.max_calls_per_peer,
    maxAnonymous: limits.max_anonymous_calls,
    maxAnonymousPerPeer: limits.max_anonymous_calls_per_peer,
    anonymousPerSecond: limits.anonymous_calls_per_second,
  });
  const registry = registryService({
    store,
    strict,
    heartbeatMs: limits.heartbeat_ms,
    maxWatchers: limits.max_watchers,
    held,
    metrics,
    log,
  });
  const gauges = async () => {
    const { revision, servers } = await store.list();
    return {
      revision,
      servers: servers.length,
      watchers: registry.watcherCount,
      nodes: reports.count,
      writable: sqlite.writeProblem() === null ? 1 : 0,
    };
  };
  const { access, tls } = credentials;
  const common = { access, slowReaderMs: limits.slow_reader_ms, shutdown: shutdown.signal, metrics, trail, log };
  const handlers = {
    grpc: grpcListener({
      ...common,
      calls,
      roles: grpcRoles,
      routes: (router) => {
        router.service(McpRegistryService, registry.implementation);
        router.service(McpNodeService, nodeService(reports));
        router.service(Health, healthService(serving, [McpRegistryService.typeName, McpNodeService.typeName]));
      },
    }),
    http: httpListener({
      ...common,
      held,
      origins: {
        scheme: tls === null ? 'http' : 'https',
        hosts: [config.http.host, ...config.allowedHosts],
        origins: config.allowedOrigins,
      },
      routes: [
        importRoute({ store, strict, metrics, log }),
        ...serversRoutes({ store, reports, strict, metrics, log }),
        eventsRoute(store),
        backupRoute(sqlite, config.files.data),
        testRoute(
          store,
          config.allowServerTest
            ? async (record, signal) =>
                (await import('./server-test.ts')).testServer(record, {
                  ...serverTest,
                  egress,
                  stdio: 'sandboxed',
                  signal,
                })
            : null,
        ),
        ...operationRoutes({
          store,
          reports,
          serving,
          metrics,
          gauges,
          writeProblem: () => sqlite.writeProblem(),
          reloader,
        }),
      ],
    }),
  };
  const listeners = await openListeners(config, tls, handlers, log);
  serving.become('serving');
  const { epoch, revision, servers } = await store.list();
  const bound = { grpc: listeners.grpc.authority, http: listeners.http.url, auth: config.auth };
  trail.write({ event: 'sms.started', epoch, revision, servers: servers.length, ...bound });

  let closing: Promise<void> | null = null;
  const close = async () => {
    serving.become('stopping');
    shutdown.abort(new ConnectError('the registry is shutting down', Code.Unavailable));
    await listeners.close(limits.shutdown_ms);
    await store.close();
    trail.write({ event: 'sms.ended' });
    await trail.close();
  };
  return {
    grpc: listeners.grpc.authority,
    http: listeners.http.url,
    reload: async () => {
      const renewed = credentials.reload();
      if (renewed !== null) listeners.useTls(renewed);
      return reloader === null ? null : reloader.reload({ dryRun: false });
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}

/** What is stored is served also when the directory cannot be taken over: nodes depend on it. */
async function firstLoad(reloader: DirectoryReloader, { strict }: SmsConfig, log: ServiceLog): Promise<void> {
  try {
    const { refusal } = await reloader.reload({ dryRun: false });
    if (refusal !== null && strict) throw new DirectoryRefused(refusal);
  } catch (error) {
    if (!(error instanceof StoreError) || error.code !== 'not_stored') throw error;
    log('error', 'directory', { problem: error.message });
  }
}
