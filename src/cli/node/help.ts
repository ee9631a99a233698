import { runStatuses } from '../../protocol/run.ts';
import { runFlagsHelp, taskFlagsHelp } from './side.ts';

const exitCode = `
Exit code:
  0 done; 1 no such task or run, refused, or a run that failed; 2 bad usage; 3 who is asked cannot be
  reached; 4 denied: no token, or one that may not do this.
`;

export const tasksHelp = `spear tasks looks after the tasks of a registry (spear-sms), or of a node without one (spearlet).

Usage:
  spear tasks apply FILE...            create tasks or give them a new revision, from files (.toml, .json) or directories
  spear tasks ls                       all tasks
  spear tasks get NAME                 one task and its revisions
  spear tasks promote NAME@REVISION    make a revision the live one, a newer or an older
  spear tasks rm NAME...               remove tasks; their runs go on

NAME may be NAMESPACE/NAME.

${taskFlagsHelp}
Exit code:
  0 done; 1 no such task, or refused; 2 bad usage; 3 the registry or node cannot be reached; 4 denied: no token, or one
  that may not do this.
`;

export const runCommandHelp = `spear run submits a run of a task to a registry with a queue (spear-sms --queue) or to a node (spearlet), waits for it,
and prints its result.

Usage:
  spear run TASK [--input FILE|-] [options]

  --input FILE         what the guest reads on stdin; - is standard input (default: nothing)
  -f, --follow         tell on stderr what happens meanwhile: its log, what models say, tool calls
  -d, --detach         print the id of the run and do not wait
  --idempotency-key K  the same key for the same task is the same run, however often this is called

${runFlagsHelp}
Exit code:
  that of the guest, where it has one; 1 if the run failed otherwise or there is no such task; 2 bad usage; 3 who is
  asked cannot be reached; 4 denied; 130 Ctrl-C: the run goes on.
`;

export const runsHelp = `spear runs shows and ends the runs of a registry with a queue (spear-sms --queue), or of a node (spearlet).

Usage:
  spear runs ls                        the newest runs
  spear runs dead                      those that were lost too often; retry runs one again
  spear runs get ID                    one run
  spear runs result ID                 what it wrote to stdout
  spear runs logs ID                   what happens in it, to its end
  spear runs cancel ID                 end it
  spear runs retry ID                  submit it again: a new run with the same input
  spear runs journal ID                its journal, for spear journal and spear replay; needs the right to read journals

  --task NAME          ls: only those of this task
  --status STATUS      ls: only those that are ${runStatuses.join(', ')}
  --limit N            ls: so many (default: 50)

${runFlagsHelp}${exitCode}`;
