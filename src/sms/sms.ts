import { readFileSync } from 'node:fs';
import { Code, ConnectError } from '@connectrpc/connect';
import { errorCode } from '../base/error-text.ts';
import type { SmsConfig } from '../config/sms/sms-config.ts';
import { egressOf } from '../pool/egress.ts';
import { Health } from '../protocol/generated/grpc/health/v1/health_pb.ts';
import { McpNodeService } from '../protocol/generated/sms/mcp_node_pb.ts';
import { McpRegistryService } from '../protocol/generated/sms/mcp_registry_pb.ts';
import { readSecretFile, SecretFileError } from '../secrets/secret-file.ts';
import { type Access, openAccess, type Role, tokenAccess } from './access.ts';
import type { TlsMaterial } from './bind.ts';
import type { DirectoryResult } from './directory.ts';
import { writeEndpointFile } from './endpoint-file.ts';
import { grpcListener } from './grpc/grpc-listener.ts';
import { startGrpcServer } from './grpc/grpc-server.ts';
import { healthService } from './grpc/health-service.ts';
import { nodeService } from './grpc/node-service.ts';
import { registryService } from './grpc/registry-service.ts';
import { backupRoute } from './http/backup-route.ts';
import { eventsRoute } from './http/events-route.ts';
import { httpListener } from './http/http-listener.ts';
import { startHttpServer } from './http/http-server.ts';
import { importRoute } from './http/import-route.ts';
import { operationRoutes } from './http/operation-routes.ts';
import { serversRoutes } from './http/servers-routes.ts';
import { testRoute } from './http/test-route.ts';
import { SmsMetrics } from './metrics/sms-metrics.ts';
import { defaultReportLimits, NodeReports } from './node-reports.ts';
import { DirectoryReloader } from './reload.ts';
import type { ServerTestOptions } from './server-test.ts';
import type { ServiceLog } from './service-log.ts';
import { ServingState } from './serving-state.ts';
import { openSqliteStore, type SqliteStore } from './store/sqlite-store.ts';
import { StoreError } from './store/store.ts';
import { ensureTokens } from './token-files.ts';
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
  /** Null: there is no directory. */
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
  const tls = config.tls === null ? null : readTls(config.tls);
  const store = openSqliteStore(config.files.data, {
    keptChanges: config.limits.kept_changes,
    watcherQueue: config.limits.watcher_queue,
    maxBytes: config.limits.max_bytes,
  });
  let trail = noTrail;
  try {
    trail = openSmsTrail(config.audit, deps.log);
    return await serve(config, deps, store, accessFor(config, deps.log), tls, trail);
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
  access: Access,
  tls: TlsMaterial | null,
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

  const registry = registryService({
    store,
    strict,
    heartbeatMs: limits.heartbeat_ms,
    maxWatchers: limits.max_watchers,
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
  const common = { access, shutdown: shutdown.signal, metrics, trail, log };
  const grpc = await startGrpcServer(
    config.grpc,
    tls,
    grpcListener({
      ...common,
      roles: grpcRoles,
      routes: (router) => {
        router.service(McpRegistryService, registry.implementation);
        router.service(McpNodeService, nodeService(reports));
        router.service(Health, healthService(serving, [McpRegistryService.typeName, McpNodeService.typeName]));
      },
    }),
  );
  const http = await startHttpServer(
    config.http,
    tls,
    httpListener({
      ...common,
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
  ).catch(async (error: unknown) => {
    await grpc.close(0);
    throw error;
  });
  const forgetEndpoint = leaveWord(config, { grpc, http }, log);
  serving.become('serving');
  const { epoch, revision, servers } = await store.list();
  const bound = { grpc: grpc.authority, http: http.url, auth: config.auth };
  trail.write({ event: 'sms.started', epoch, revision, servers: servers.length, ...bound });

  let closing: Promise<void> | null = null;
  const close = async () => {
    serving.become('stopping');
    forgetEndpoint();
    shutdown.abort(new ConnectError('the registry is shutting down', Code.Unavailable));
    await Promise.all([grpc.close(limits.shutdown_ms), http.close(limits.shutdown_ms)]);
    await store.close();
    trail.write({ event: 'sms.ended' });
    await trail.close();
  };
  return {
    grpc: grpc.authority,
    http: http.url,
    reload: async () => (reloader === null ? null : reloader.reload({ dryRun: false })),
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

/** Clients can be told the address; that there is no room for a file must not keep them from being served. */
function leaveWord(config: SmsConfig, bound: Parameters<typeof writeEndpointFile>[1], log: ServiceLog): () => void {
  const { endpoint } = config.files;
  try {
    return writeEndpointFile(endpoint, bound, config.tls === null ? 'http' : 'https');
  } catch (error) {
    log('error', 'endpoint_file', {
      problem: `${endpoint} cannot be written (${errorCode(error) ?? error}); clients need --sms`,
    });
    return () => {};
  }
}

function accessFor(config: SmsConfig, log: ServiceLog): Access {
  if (!config.auth) return openAccess;
  const { tokens, created } = ensureTokens({ admin: config.files.adminToken, node: config.files.nodeToken });
  for (const file of created) log('info', 'token_created', { file });
  return tokenAccess(tokens);
}

function readTls(files: { readonly cert: string; readonly key: string }): TlsMaterial {
  return {
    cert: readTlsFile('--tls-cert', files.cert, (path) => readFileSync(path, 'utf8')),
    key: readTlsFile('--tls-key', files.key, readSecretFile),
  };
}

function readTlsFile(from: string, path: string, read: (path: string) => string): string {
  try {
    return read(path);
  } catch (error) {
    if (error instanceof SecretFileError) throw new Error(`${from}: ${error.message}`);
    throw new Error(`${from}: ${path} cannot be read (${errorCode(error) ?? error})`);
  }
}
