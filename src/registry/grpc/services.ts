import type { ConnectRouter } from '@connectrpc/connect';
import type { ApprovalQueue } from '../../agent/approvals/service.ts';
import { Health } from '../../generated/proto/grpc/health/v1/health_pb.ts';
import { ApprovalService } from '../../generated/proto/sms/approval_pb.ts';
import { IdentityService } from '../../generated/proto/sms/identity_pb.ts';
import { McpNodeService } from '../../generated/proto/sms/mcp_node_pb.ts';
import { McpProfileService } from '../../generated/proto/sms/mcp_profile_pb.ts';
import { McpRegistryService } from '../../generated/proto/sms/mcp_registry_pb.ts';
import { NodeRunService } from '../../generated/proto/sms/node_runs_pb.ts';
import { StopService } from '../../generated/proto/sms/stop_pb.ts';
import { TaskService } from '../../generated/proto/sms/task_pb.ts';
import { TaskRecordService } from '../../generated/proto/sms/task_records_pb.ts';
import type { Access } from '../../server/identity/access.ts';
import type { Oidc } from '../../server/identity/oidc/oidc.ts';
import type { McpProfile } from '../../server/records/profile.ts';
import type { StopRecord } from '../../server/records/stop.ts';
import type { AuditedStore } from '../audit/audited-store.ts';
import type { NodeReports } from '../node-reports.ts';
import type { RunReports } from '../run-reports.ts';
import { approvalService } from './approval-service.ts';
import { type TaskServiceDeps, taskService } from './compat/task-service.ts';
import type { GrpcNeed } from './grpc-listener.ts';
import { healthService, type ServingState } from './health-service.ts';
import { identityService } from './identity-service.ts';
import type { KindServiceDeps } from './kind-reads.ts';
import {
  profileService,
  registryService,
  stopService,
  type TaskRecordServiceDeps,
  taskRecordService,
} from './kind-services.ts';
import { nodeService, runService } from './node-service.ts';

export interface ServicesDeps extends KindServiceDeps, TaskServiceDeps, TaskRecordServiceDeps {
  readonly store: AuditedStore;
  readonly profiles: AuditedStore<McpProfile>;
  readonly stops: AuditedStore<StopRecord>;
  readonly approvals: ApprovalQueue;
  readonly reports: NodeReports;
  readonly runs: RunReports;
  readonly serving: ServingState;
  readonly access: Access;
  /** Whose people nodes may know; null: there is no issuer. */
  readonly oidc: Oidc | null;
}

/** Everything that is served over gRPC; `methodNeeds` says who may call it. */
export function allServices({
  store,
  profiles,
  stops,
  approvals,
  reports,
  runs,
  serving,
  access,
  oidc,
  ...shared
}: ServicesDeps) {
  return (router: ConnectRouter): void => {
    const served = [
      ...[McpRegistryService, McpProfileService, McpNodeService, NodeRunService, ApprovalService],
      ...[TaskService, TaskRecordService, IdentityService, StopService],
    ].map(({ typeName }) => typeName);
    router.service(McpRegistryService, registryService(store, shared));
    router.service(McpProfileService, profileService(profiles, shared));
    router.service(StopService, stopService(stops, shared));
    router.service(McpNodeService, nodeService(reports));
    router.service(NodeRunService, runService(runs));
    router.service(ApprovalService, approvalService(approvals, shared));
    router.service(TaskService, taskService(shared));
    router.service(TaskRecordService, taskRecordService(shared));
    router.service(IdentityService, identityService(access, oidc));
    router.service(Health, healthService(serving, served));
  };
}

const follow: GrpcNeed = { needs: 'follow', changes: false };
const report: GrpcNeed = { needs: 'report', changes: false };
const ask: GrpcNeed = { needs: 'ask', changes: true, namespaced: true };
const identify: GrpcNeed = { needs: 'identify', changes: false };
const operateTasks: GrpcNeed = { needs: 'operate', changes: true, namespaced: true };
const operate: GrpcNeed = { needs: 'operate', changes: true };
const anybody: GrpcNeed = { needs: 'anybody', changes: false };

/** What every method asks of its caller, by "service/method". */
export const methodNeeds: ReadonlyMap<string, GrpcNeed> = new Map([
  [`${McpRegistryService.typeName}/ListMcpServers`, follow],
  [`${McpRegistryService.typeName}/WatchMcpServers`, follow],
  [`${McpRegistryService.typeName}/UpsertMcpServer`, operate],
  [`${McpRegistryService.typeName}/DeleteMcpServer`, operate],
  [`${McpProfileService.typeName}/ListMcpProfiles`, follow],
  [`${McpProfileService.typeName}/WatchMcpProfiles`, follow],
  [`${McpProfileService.typeName}/UpsertMcpProfile`, operate],
  [`${McpProfileService.typeName}/DeleteMcpProfile`, operate],
  [`${McpNodeService.typeName}/ReportMcpNode`, report],
  [`${NodeRunService.typeName}/ReportRuns`, report],
  [`${ApprovalService.typeName}/OpenApproval`, ask],
  [`${ApprovalService.typeName}/WatchApprovals`, ask],
  [`${ApprovalService.typeName}/WaitingApprovals`, ask],
  [`${ApprovalService.typeName}/ClaimApproval`, ask],
  [`${ApprovalService.typeName}/WithdrawApproval`, ask],
  [`${TaskService.typeName}/RegisterTask`, operateTasks],
  [`${TaskService.typeName}/ListTasks`, follow],
  [`${TaskService.typeName}/GetTask`, follow],
  [`${TaskService.typeName}/UnregisterTask`, operateTasks],
  [`${TaskRecordService.typeName}/ListTaskRecords`, follow],
  [`${TaskRecordService.typeName}/WatchTaskRecords`, follow],
  [`${TaskRecordService.typeName}/GetTaskRevision`, follow],
  [`${TaskRecordService.typeName}/ReadTaskModule`, follow],
  [`${StopService.typeName}/ListStops`, follow],
  [`${StopService.typeName}/WatchStops`, follow],
  [`${IdentityService.typeName}/IdentifyToken`, identify],
  [`${IdentityService.typeName}/DescribeIssuer`, identify],
  [`${Health.typeName}/Check`, anybody],
  [`${Health.typeName}/Watch`, anybody],
]);
