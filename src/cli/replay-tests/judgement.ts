/** What a recorded run was measured by. */
export type JudgedBy = 'replay' | 'module' | 'policy';

/**
 * `diverged`: the replayed guest did something else. `request`, `call`, `question`, `output`, `end`: the changed guest asks
 * the model, calls a tool, asks about servers, prints or ends otherwise. `denied`, `approval`, `allowed`: policy says no to
 * a call that was made, wants a person to say yes, or lets one through that was refused.
 */
export type DifferenceKind =
  | 'diverged'
  | 'request'
  | 'call'
  | 'question'
  | 'output'
  | 'end'
  | 'denied'
  | 'approval'
  | 'allowed';

/** The first place where a run would be another one. */
export interface RunDifference {
  readonly by: JudgedBy;
  readonly kind: DifferenceKind;
  /** In the run: which request, which call, which byte of the output. */
  readonly where: string;
  /** What stands in the journal. Content of the run: not to be trusted. */
  readonly recorded: string;
  /** What it would be now. The same holds. */
  readonly now: string;
}

export interface JudgedRun {
  readonly file: string;
  /** Null where the journal cannot be used. */
  readonly run: string | null;
  readonly task: string | null;
  /** `unjudged`: nothing that was given is about it. */
  readonly verdict: 'same' | 'differs' | 'unusable' | 'unjudged';
  readonly difference: RunDifference | null;
  /** Why it cannot be used, or was not judged; null: neither. */
  readonly problem: string | null;
  /** Whether its journal ends before the run did: it was judged as far as that. */
  readonly unfinished: boolean;
  /** Tools that the model was shown, never called, and would not be shown any more: `server/tool`. */
  readonly noLongerShown: readonly string[];
}

/** What one way of judging found. */
export type Finding = Pick<JudgedRun, 'verdict' | 'difference' | 'problem' | 'unfinished' | 'noLongerShown'>;

export const same = (unfinished = false): Finding => ({
  verdict: 'same',
  difference: null,
  problem: null,
  unfinished,
  noLongerShown: [],
});

export const differs = (difference: RunDifference): Finding => ({ ...same(), verdict: 'differs', difference });

export const unusable = (problem: string): Finding => ({ ...same(), verdict: 'unusable', problem });

export const unjudged = (problem: string): Finding => ({ ...same(), verdict: 'unjudged', problem });
