/** How long the host's thread was held, in its own time and by the clock on the wall. */
export interface Held {
  readonly cpuMs: number;
  readonly wallMs: number;
}

const LOOK_MS = 1;

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/**
 * Does something and tells how long it held the thread at a time at the longest: from one turn of the event loop to the
 * next. A busy machine takes the processor away from everybody, so that the clock on the wall says little: what counts
 * is what the thread itself has used.
 */
export async function held<T>(work: () => T | Promise<T>): Promise<{ readonly value: T; readonly held: Held }> {
  let longestCpu = 0;
  let longestWall = 0;
  let cpu = cpuMs();
  let wall = performance.now();
  const look = () => {
    const [cpuNow, wallNow] = [cpuMs(), performance.now()];
    longestCpu = Math.max(longestCpu, cpuNow - cpu);
    longestWall = Math.max(longestWall, wallNow - wall);
    cpu = cpuNow;
    wall = wallNow;
  };
  const watching = setInterval(look, LOOK_MS);
  try {
    const answer = work();
    const value = answer instanceof Promise ? await answer : answer;
    look();
    return { value, held: { cpuMs: longestCpu, wallMs: longestWall } };
  } finally {
    clearInterval(watching);
  }
}
