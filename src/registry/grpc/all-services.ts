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
import { healthService, type ServingState } from './health-service.ts';
import { identityService } from './identity-service.ts';
import type { KindServiceDeps } from './kind-reads.ts';
import { nodeService, runService } from './node-service.ts';
import { profileService } from './profile-service.ts';
import { registryService } from './registry-service.ts';
import { stopService } from './stop-service.ts';
import { type TaskRecordServiceDeps, taskRecordService } from './task-record-service.ts';

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
