import { parentPort, workerData } from 'node:worker_threads';
import { type AuditBatch, type AuditNews, type AuditThreadData, FAILED, progressAt } from './port.ts';
import { AuditWriter } from './writer.ts';

const { progress, ...options } = workerData as AuditThreadData;
const port = parentPort;
if (port === null) throw new Error('audit/thread must run in a worker thread');
const counters = new Int32Array(progress);
const writer = new AuditWriter(options);

function finishStep(): void {
  Atomics.add(counters, progressAt.steps, 1);
  Atomics.notify(counters, progressAt.steps);
}

const tell = (news: AuditNews) => port.postMessage(news);

function report(error: NodeJS.ErrnoException | null): void {
  if (error === null || Atomics.load(counters, progressAt.failure) !== 0) return;
  Atomics.store(counters, progressAt.failure, Math.abs(error.errno ?? 0) || 1);
  tell(FAILED);
}

port.on('message', (batch: AuditBatch) => {
  const error = writer.append(batch.events, batch.dropped, finishStep);
  report(error);
  if (batch.asked !== null) tell({ asked: batch.asked, isWritten: error === null && batch.dropped === 0 });
  if (batch.isLast) {
    report(writer.end());
    port.close();
  }
  Atomics.add(counters, progressAt.batches, 1);
  finishStep();
});
finishStep();
