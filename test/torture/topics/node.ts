import { backups } from '../node/backups.ts';
import { exhausted } from '../node/exhausted.ts';
import { kills } from '../node/kills.ts';
import { streamFuzz } from '../node/stream-fuzz.ts';
import { turnover } from '../node/turnover.ts';
import type { Topic } from '../topic.ts';

export const topic: Topic = async (effort) => [
  await kills(effort),
  await backups(effort),
  await turnover(effort),
  await exhausted(effort),
  await streamFuzz(effort),
];
