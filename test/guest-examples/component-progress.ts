/** The line about a component that takes noticeable time to compile the first time: whether it comes is chance. */
const progress = /^spear-run: compiling the component \(.*\) …\n/m;

export const withoutProgress = (stderr: string): string => stderr.replace(progress, '');
