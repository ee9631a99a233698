import { clockSteps } from '../registry/clock-steps.ts';
import { fullDisk } from '../registry/full-disk.ts';
import { grpcAttack } from '../registry/grpc-attack.ts';
import { kills } from '../registry/kills.ts';
import { pauses } from '../registry/pauses.ts';
import type { Topic } from '../topic.ts';

export const topic: Topic = async (effort) => [
  await kills(effort),
  await fullDisk(effort),
  await pauses(effort),
  await clockSteps(effort),
  await grpcAttack(effort),
];
