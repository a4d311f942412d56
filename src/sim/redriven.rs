//! What the core foresees of redrives, compared with jobs that then do it, at the end of a run.

use std::collections::BTreeMap;

use super::World;
use crate::base::{Meter, Name, Position, QueueId};
use crate::broker::redrive::{
    NewRedrive, RedriveCause, RedriveCommand, RedriveCounts, RedriveJob, RedriveRights,
    RedriveSpec, RedriveState, Steering,
};
use crate::broker::{Becomes, Command, Event, Foresight, NotMoved};

/// Messages of one queue that are moved at most, one job each.
const MOVED_MAX: u64 = 5;

impl World {
    /// Redrives messages of every queue, one by one, and compares where each goes, or what is in
    /// the way, with what was foreseen.
    pub fn redrive_as_foreseen(&mut self) -> Result<(), String> {
        let queues = self.core.queues();
        let queues: BTreeMap<QueueId, Name> =
            queues.map(|queue| (queue.id, queue.name.clone())).collect();
        for (id, name) in queues {
            for number in 0..MOVED_MAX {
                let foreseen = self.foresee_redrives(id);
                let Some(foreseen) = foreseen else {
                    break; // what is on disk is not foreseen here
                };
                let job = self.redrive_one(&name, &format!("{}-{number}", id.0));
                let Some(job) = job else {
                    break; // the queue refuses redrives: it is exclusive
                };
                if !self.compare(&foreseen, &job)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What is foreseen for the messages of a queue up to the first that is moved or waited for.
    fn foresee_redrives(&self, id: QueueId) -> Option<Vec<Foresight>> {
        let queue = self.core.queues().find(|queue| queue.id == id)?;
        let event = Event::Redriven(RedriveRights::all()?);
        let (mut foreseen, mut from) = (Vec::new(), Position(0));
        while let Some((position, _)) = queue.messages.next_live(from) {
            let meter = &mut Meter::default();
            let place = (id, position);
            let foresight = self.core.foresee(self.now, place, &event, None, meter)?;
            let goes_on = match foresight.becomes {
                Becomes::NotMoved(why) => !matches!(why, NotMoved::TargetFull | NotMoved::Alarm),
                _ => false,
            };
            foreseen.push(foresight);
            if !goes_on {
                break;
            }
            from = Position(position.0 + 1);
        }
        Some(foreseen)
    }

    /// Moves one message, if it can be; returns the job, which is over then.
    fn redrive_one(&mut self, queue: &Name, id: &str) -> Option<RedriveJob> {
        let id = Name::from(id);
        let new = NewRedrive {
            id: id.clone(),
            by: Name::from("sim"),
            spec: RedriveSpec {
                max: Some(1),
                ramp: Some(false),
                stop: None,
                ..RedriveSpec::to_origin(queue.clone())
            },
            matched: None,
            rights: RedriveRights::all()?,
        };
        self.apply(Command::Redrive(RedriveCommand::Start(Box::new(new))));
        let job = self.core.redrive(&id)?.clone();
        if !job.state.is_over() {
            let steering = Steering::Cancel;
            self.apply(Command::Redrive(RedriveCommand::Steer { id, steering }));
        }
        Some(job)
    }

    /// Compares; true if a message was moved.
    fn compare(&mut self, foreseen: &[Foresight], job: &RedriveJob) -> Result<bool, String> {
        let mut expected = RedriveCounts::default();
        let (mut targets, mut state) = (Vec::new(), (RedriveState::Completed, None));
        let [moved, left, waited] = &mut self.foreseen.redriven;
        for foresight in foreseen {
            let (count, compared) = match foresight.becomes {
                Becomes::Moved => {
                    let names = foresight.targets.iter();
                    targets.extend(names.map(|target| target.queue.clone()));
                    state.1 = Some(RedriveCause::Max);
                    (&mut expected.moved, &mut *moved)
                }
                Becomes::NotMoved(NotMoved::Held) => (&mut expected.skipped_held, &mut *left),
                Becomes::NotMoved(NotMoved::NoTarget | NotMoved::SameQueue) => {
                    (&mut expected.skipped_no_target, &mut *left)
                }
                Becomes::NotMoved(NotMoved::NotAllowed) => {
                    (&mut expected.skipped_not_allowed, &mut *left)
                }
                Becomes::NotMoved(NotMoved::TargetFull) => {
                    state = (RedriveState::Waiting, Some(RedriveCause::TargetFull));
                    *waited += 1;
                    continue;
                }
                _ => return Err(format!("{foresight:?} is foreseen of a redrive")),
            };
            *count += 1;
            *compared += 1;
        }
        expected.matched = job.counts.matched;
        let into: Vec<Name> = job.targets.iter().map(|to| to.queue.clone()).collect();
        let found = (job.counts, &into, (job.state, job.cause));
        if found == (expected, &targets, state) {
            return Ok(expected.moved > 0);
        }
        Err(format!(
            "a redrive was foreseen as {foreseen:?}, and is {found:?} (seed {})",
            self.seed
        ))
    }
}
