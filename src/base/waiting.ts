/** Something that is waited for, in words that follow "waiting for". They may be a stranger's: nobody may trust them. */
export interface Wait {
  readonly what: string;
  /** When it is over at the latest, from now; null where nobody knows. */
  readonly atMostMs: number | null;
}

/** Is told when a wait begins; what it gives is called when the wait is over. */
export type Waiting = (wait: Wait) => () => void;

/** Nobody wants to know. */
export const untold: Waiting = () => () => {};

export async function toldWhile<T>(waiting: Waiting, wait: Wait, work: Promise<T>): Promise<T> {
  const over = waiting(wait);
  try {
    return await work;
  } finally {
    over();
  }
}
