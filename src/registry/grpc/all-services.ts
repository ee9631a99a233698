import type { ConnectRouter } from '@connectrpc/connect';
import { Health } from '../../protocol/generated/grpc/health/v1/health_pb.ts';
import { ApprovalService } from '../../protocol/generated/sms/approval_pb.ts';
import { IdentityService } from '../../protocol/generated/sms/identity_pb.ts';
import { McpNodeService } from '../../protocol/generated/sms/mcp_node_pb.ts';
import { McpProfileService } from '../../protocol/generated/sms/mcp_profile_pb.ts';
import { McpRegistryService } from '../../protocol/generated/sms/mcp_registry_pb.ts';
import { NodeRunService } from '../../protocol/generated/sms/node_runs_pb.ts';
import { StopService } from '../../protocol/generated/sms/stop_pb.ts';
import { TaskService } from '../../protocol/generated/sms/task_pb.ts';
import { TaskRecordService } from '../../protocol/generated/sms/task_records_pb.ts';
import type { McpProfile } from '../../protocol/profile.ts';
import type { StopRecord } from '../../protocol/stop.ts';
import type { ApprovalQueue } from '../approvals/queue.ts';
import type { NodeReports } from '../node-reports.ts';
import type { Access } from '../people/access.ts';
import type { Oidc } from '../people/oidc/oidc.ts';
import type { RunReports } from '../run-reports.ts';
import type { ServingState } from '../serving-state.ts';
import type { RegistryStore } from '../store/store.ts';
import { approvalService } from './approval-service.ts';
import { healthService } from './health-service.ts';
import { identityService } from './identity-service.ts';
import type { KindServiceDeps } from './kind-reads.ts';
import { nodeService } from './node-service.ts';
import { profileService } from './profile-service.ts';
import { registryService } from './registry-service.ts';
import { runService } from './run-service.ts';
import { stopService } from './stop-service.ts';
import { type TaskRecordServiceDeps, taskRecordService } from './task-record-service.ts';
import { type TaskServiceDeps, taskService } from './task-service.ts';

export interface ServicesDeps extends KindServiceDeps, TaskServiceDeps, TaskRecordServiceDeps {
  readonly store: RegistryStore;
  readonly profiles: RegistryStore<McpProfile>;
  readonly stops: RegistryStore<StopRecord>;
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
