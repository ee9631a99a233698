import { type CycleEnd, cycle } from '../processes/cycle.ts';
import { Failures, type Topic } from '../topic.ts';

/** Most of a cycle is waiting: for servers to start, and for what is left of them to end. */
const LANES = 4;

export const topic: Topic = async (effort) => {
  const wanted = effort.of(8, 2_000);
  const failures = new Failures();
  const ends: CycleEnd[] = [];
  let begun = 0;
  const lane = async () => {
    while (begun < wanted && !effort.isOver()) {
      begun++;
      const end = await cycle(effort.random.seed());
      ends.push(end);
      if (end.failure !== null) failures.add(end.failure);
      effort.progress(ends.length, wanted);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  const started = ends.reduce((sum, end) => sum + end.started, 0);
  const hosts = ends.filter((end) => end.started > 0).length;
  const foldersLeft = ends.reduce((sum, end) => sum + end.foldersLeft, 0);
  const slowest = Math.max(...ends.map((end) => end.goneAfterMs));
  // Hosts that die with nothing started prove nothing.
  if (hosts === 0) failures.add(`none of ${ends.length} hosts had started a server`);
  return [
    {
      what: 'start of a host with stdio servers, and kill -9 of it at any moment',
      count: ends.length,
      lost: failures.count,
      crashed: 0,
      measured: `${started.toLocaleString('en')} servers of ${hosts.toLocaleString('en')} hosts, the last gone after ${Math.round(slowest)} ms; ${foldersLeft} folders left`,
      failures: failures.list(),
    },
  ];
};
